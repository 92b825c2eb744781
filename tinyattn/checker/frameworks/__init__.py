"""Adapters for other frameworks: ``pairs`` (NumPy), ``pytorch`` and ``jax``.

None of them imports its framework, which is looked up in ``sys.modules``: a caller who passes its arrays has imported
it.
"""
