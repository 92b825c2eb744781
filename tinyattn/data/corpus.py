"""Where text comes from: the user's file, Python's own documentation, or Tiny Shakespeare.

Policy on bytes: text is UTF-8; a byte order mark at the very beginning is dropped, one further in
is a character like any other. Line ends are kept as they are on every system: a file of Windows
has ``\\r`` in its vocabulary, and decoding what was encoded gives the file back.
"""

import errno
import os
from pathlib import Path

from .errors import InputError
from .paths import expand_path

SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def read_text(path):
    """The text of a file, characters kept as they are.

    Args:
        path: a file of UTF-8 text, with or without a byte order mark.

    Raises:
        InputError: where there is no file, only white space in it, or bytes that are not UTF-8.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "text")
    >>> _ = file.write_bytes(b"\\xef\\xbb\\xbfab\\r\\n")
    >>> read_text(file)
    'ab\\r\\n'
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a directory, not a text file: give the path of one file")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        names = ", ".join(CORPORA)
        raise InputError(
            f"there is no file {path}: give the path of a text file, or one of {names}"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    text = decode_text(content, str(path))
    if not text.strip():
        kind = "empty" if not text else "nothing but white space"
        raise InputError(f"{path} is {kind}: give a file with text to learn from")
    return text


def decode_text(content, name):
    """``content`` (bytes) as text, by the policy of this module; ``name`` is for the message."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind the byte order mark.
        start = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = content.count(b"\n", 0, start) + 1
        raise InputError(
            f"{name} is not UTF-8 text: byte 0x{content[start]:02x} at offset {start} "
            f"(line {line}); save it as UTF-8, for instance with: iconv {_encodings(content)} -t utf-8"
        ) from None


def _encodings(content):
    """``iconv``'s option for what ``content`` may be: told by its byte order mark, else to be chosen."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "-f utf-16"
    return "-f ENCODING (such as latin1 or gb18030)"


def load_corpus(name):
    """The text called ``name``: ``"pydoc"``, ``"shakespeare"``, or the path of a file.

    A corpus's name wins over a file of that name; ``./pydoc`` is the file.

    Raises:
        InputError: as ``read_text``; for ``"shakespeare"`` also where it cannot be fetched.

    >>> load_corpus("pydoc")[:22]
    'The "assert" statement'
    """
    if name in CORPORA:
        return CORPORA[name]()
    return read_text(name)


def pydoc_corpus():
    """The topics of Python's ``help()``: half a megabyte of English, wherever Python is."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise InputError(
            "this Python comes without pydoc_data.topics: give a text file with --data FILE"
        ) from None
    return "\n".join(topics[name].strip("\n") + "\n" for name in sorted(topics))


def shakespeare_corpus(url=SHAKESPEARE_URL, sha256=SHAKESPEARE_SHA256, folder=None):
    """Tiny Shakespeare (Karpathy 2015), fetched once into the user's cache and checked by sha256.

    Args:
        url: where to fetch it from.
        sha256: the digest that the content must have.
        folder: where to keep it; the user's cache folder by default (see TINYATTN_CACHE).

    Raises:
        InputError: where it can be neither found nor fetched, or its digest differs.
    """
    import pooch

    given = os.environ.get("TINYATTN_CACHE")
    if given and not folder:
        folder = expand_path(given, "TINYATTN_CACHE")
    folder = Path(folder or _user_cache())
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        folder.mkdir(
            parents=True, exist_ok=True
        )  # its errors name a path, those of the network do not
        path = pooch.retrieve(
            url,
            known_hash=f"sha256:{sha256}",
            fname="tinyshakespeare.txt",
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=20),
        )
    except ValueError:
        raise InputError(
            f"what {url} sent is not Tiny Shakespeare (its sha256 differs from {sha256}): "
            f"get the file elsewhere and give it with --data FILE"
        ) from None
    except OSError as error:
        if error.filename or isinstance(error, PermissionError) or error.errno in _DISK_ERRORS:
            raise InputError(
                f"cannot keep Tiny Shakespeare in {folder} ({error.strerror or 'it cannot be written to'}): "
                f"name another folder in the environment as TINYATTN_CACHE"
            ) from None
        raise InputError(
            f"cannot fetch Tiny Shakespeare from {url} ({type(error).__name__}): "
            f"get the file elsewhere and give it with --data FILE"
        ) from None
    finally:
        logger.setLevel(level)
    return read_text(path)


# What writing a file may answer, which no network does; pooch passes some on without a path.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}


def _user_cache():
    """The folder for caches that the system has for this user.

    Raises:
        InputError: where it is not known, as in a container whose user has no home.
    """
    import pooch

    try:
        folder = os.path.expanduser(pooch.os_cache("tinyattn"))
    except (RuntimeError, KeyError, OSError):
        folder = "~"
    if folder.startswith("~"):
        raise InputError(
            "there is no home directory to keep Tiny Shakespeare in: name a folder in the environment as TINYATTN_CACHE"
        )
    return folder


CORPORA = {"pydoc": pydoc_corpus, "shakespeare": shakespeare_corpus}
