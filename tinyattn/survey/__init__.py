"""The survey: the checker applied to every primitive, kernel and block of this library.

``cases`` and ``blocks`` list what is checked, ``primitives`` checks it, ``mutations`` holds wrong versions of rules
that the checker must find, ``curve`` measures errors against the step, and ``page`` shows all of it as HTML.
"""
