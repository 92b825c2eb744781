"""Mutation testing of our own rules and kernels: ``python -m tools.mutants``."""
