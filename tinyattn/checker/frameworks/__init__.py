"""Functions of other frameworks as problems, a module for each framework.

None of them imports its framework: who passes its arrays has imported it, and it is found in ``sys.modules``.
"""
