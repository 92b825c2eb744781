"""The sections of ``python -m benchmarks.gpu``, by subject."""
