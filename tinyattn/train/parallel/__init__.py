"""Parallel training: workers that share each batch, and MPI processes that share a run."""
