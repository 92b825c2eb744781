"""The error for what a user gave and could change."""


class InputError(ValueError):
    """A text, file, run or option cannot be used: the message says what was given and what to do.

    The command line prints the message alone, with exit status 2. Everything else that goes wrong
    is a fault of the program and keeps its traceback.

    >>> from tinyattn.data import CharVocabulary
    >>> try:
    ...     CharVocabulary("ab").encode("c")
    ... except InputError as error:
    ...     print(error)
    no id for 'c' (position 0); the vocabulary is 'ab'
    """
