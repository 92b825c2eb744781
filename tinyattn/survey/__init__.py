"""The survey: gradient checks of every primitive, kernel and block of this library.

``cases`` and ``blocks`` are the tables of checks, ``primitives`` runs the checks of primitives, ``mutations`` has wrong
versions of rules that the checker must detect, ``curve`` measures the error of differences as a function of the step,
and ``page`` shows the results as HTML.
"""
