"""Mutants that compute the same as the original, each with the reason."""

EQUIVALENT = {}
