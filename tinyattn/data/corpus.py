"""Where text comes from: the user's files, standard input, Python's own documentation, or Tiny Shakespeare.

Policy on bytes: text is UTF-8; a byte order mark at the very beginning is dropped, one further in
is a character like any other. Line ends are kept as they are on every system: a file of Windows
has ``\\r`` in its vocabulary, and decoding what was encoded gives the file back.
"""

import errno
import os
from pathlib import Path

from .errors import InputError
from .paths import expand_path

STANDARD_INPUT = "-"
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
    _refuse_blank(text, path)
    return text


def _refuse_blank(text, name):
    if not text.strip():
        kind = "empty" if not text else "nothing but white space"
        raise InputError(f"{name} is {kind}: give a file with text to learn from")


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


def load_corpus(data, standard_input=None):
    """The text called ``data``: ``"pydoc"``, ``"shakespeare"``, the path of a file, ``"-"``, or several of them.

    A corpus's name wins over a file of that name; ``./pydoc`` is the file. Several texts follow each other as they
    are, with nothing between them, as ``cat`` joins files.

    Args:
        data: a name or a sequence of names.
        standard_input: the stream that ``"-"`` reads to its end; without one, ``"-"`` is refused.

    Raises:
        InputError: as ``read_text``; for ``"shakespeare"`` also where it cannot be fetched.

    >>> load_corpus("pydoc")[:22]
    'The "assert" statement'
    >>> import io
    >>> load_corpus("-", io.StringIO("to be"))
    'to be'
    """
    return "".join(_load_one(name, standard_input) for name in corpus_names(data))


def _load_one(name, standard_input):
    if name == STANDARD_INPUT:
        return _read_stream(standard_input)
    if name in CORPORA:
        return CORPORA[name]()
    return read_text(name)


def _read_stream(stream):
    if stream is None:
        raise InputError(
            "standard input (--data -) is read once, by the process that begins a run: give the text as a file"
        )
    content = getattr(stream, "buffer", stream).read()
    text = decode_text(content, "standard input") if isinstance(content, bytes) else content
    _refuse_blank(text, "standard input")
    return text


def corpus_names(data):
    """The names in ``data``, a name or a sequence of names, as a tuple.

    >>> corpus_names("pydoc"), corpus_names(["a.txt", "b.txt"])
    (('pydoc',), ('a.txt', 'b.txt'))
    """
    return (data,) if isinstance(data, str) else tuple(data)


def located(data):
    """``data`` with the absolute path of each file, by which it is found from any directory."""
    kept = (STANDARD_INPUT, *CORPORA)
    names = [name if name in kept else os.path.abspath(name) for name in corpus_names(data)]
    return names[0] if isinstance(data, str) else tuple(names)


def corpus_title(data):
    """What to call the text of ``data`` before people: its names, of paths the last part.

    >>> corpus_title(["texts/a.txt", "b.txt"]), corpus_title("-")
    ('a.txt, b.txt', 'standard input')
    """
    names = corpus_names(data)
    return ", ".join("standard input" if n == STANDARD_INPUT else Path(n).name for n in names)


def corpus_stem(data):
    """The beginning of a file name for what is made of ``data``.

    >>> corpus_stem(["texts/a.txt", "b.txt"]), corpus_stem("-")
    ('a+b', 'stdin')
    """
    stems = ["stdin" if n == STANDARD_INPUT else Path(n).stem for n in corpus_names(data)]
    return "+".join(stems)[:60]


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
