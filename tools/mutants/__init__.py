"""Mutation testing of the library's rules and kernels: ``python -m tools.mutants``."""
