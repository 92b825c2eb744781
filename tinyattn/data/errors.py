"""The exception for mistakes in a user's input, and the warning about a file that is replaced or left out."""


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


class InputWarning(UserWarning):
    """A warning about a text, file or run; the command line prints it on one line.

    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=InputWarning)  # for example
    """
