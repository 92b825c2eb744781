"""The exception for mistakes in a user's input."""


class InputError(ValueError):
    """A text, file, run or option cannot be used; the message says what was given and what to do.

    The command line prints only the message and exits with status 2. Other exceptions are bugs and keep their
    traceback.

    >>> from tinyattn.data import CharVocabulary
    >>> try:
    ...     CharVocabulary("ab").encode("c")
    ... except InputError as error:
    ...     print(error)
    no id for 'c' (position 0); the vocabulary is 'ab'
    """
