"""Text corpora: files, standard input, Python's documentation, or Tiny Shakespeare.

Encoding: text is UTF-8. A byte order mark at the beginning is dropped; a later one is an ordinary character. Line ends
are not converted on any system: the vocabulary of a Windows file contains ``\\r``, and decoding the ids restores the
file exactly.
"""

import errno
import os
from pathlib import Path

from .cache import cache_folder
from .errors import InputError

STANDARD_INPUT = "-"
SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def read_text(path):
    """Read a text file without converting any character.

    Args:
        path: a file of UTF-8 text, with or without a byte order mark.

    Raises:
        InputError: if the file does not exist, contains only white space, or is not UTF-8.

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
    _check_not_blank(text, path)
    return text


def _check_not_blank(text, name):
    if not text.strip():
        kind = "empty" if not text else "nothing but white space"
        raise InputError(f"{name} is {kind}: give a file with text to train on")


def decode_text(content, name):
    """Decode ``content`` (bytes), see the module docstring; ``name`` is for the error message."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from the end of the byte order mark.
        start = error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)
        line = content.count(b"\n", 0, start) + 1
        raise InputError(
            f"{name} is not UTF-8 text: byte 0x{content[start]:02x} at offset {start} "
            f"(line {line}); save it as UTF-8, for instance with: iconv {_encodings(content)} -t utf-8"
        ) from None


def _encodings(content):
    """The encoding option of ``iconv``: UTF-16 if there is such a byte order mark, else a placeholder."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "-f utf-16"
    return "-f ENCODING (such as latin1 or gb18030)"


def load_corpus(data, standard_input=None):
    """Load a corpus: ``"pydoc"``, ``"shakespeare"``, the path of a file, ``"-"`` for standard input, or several.

    The name of a corpus takes precedence over a file of that name; ``./pydoc`` is the file. Several texts are
    concatenated without a separator, as by ``cat``.

    Args:
        data: a name or a sequence of names.
        standard_input: the stream to read for ``"-"``; None raises an error for ``"-"``.

    Raises:
        InputError: as ``read_text``; for ``"shakespeare"`` also if the download fails.

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
            "standard input (--data -) can be read only when a run starts: give the text as a file"
        )
    content = getattr(stream, "buffer", stream).read()
    text = decode_text(content, "standard input") if isinstance(content, bytes) else content
    _check_not_blank(text, "standard input")
    return text


def corpus_names(data):
    """The names in ``data``, a name or a sequence of names, as a tuple.

    >>> corpus_names("pydoc"), corpus_names(["a.txt", "b.txt"])
    (('pydoc',), ('a.txt', 'b.txt'))
    """
    return (data,) if isinstance(data, str) else tuple(data)


def located(data):
    """Replace the paths of files in ``data`` by absolute paths, which are valid in any directory."""
    kept = (STANDARD_INPUT, *CORPORA)
    names = [name if name in kept else os.path.abspath(name) for name in corpus_names(data)]
    return names[0] if isinstance(data, str) else tuple(names)


def corpus_title(data):
    """The title of a corpus for display: its names, or the last parts of its paths.

    >>> corpus_title(["texts/a.txt", "b.txt"]), corpus_title("-")
    ('a.txt, b.txt', 'standard input')
    """
    names = corpus_names(data)
    return ", ".join("standard input" if n == STANDARD_INPUT else Path(n).name for n in names)


def corpus_stem(data):
    """A prefix for the names of files generated from ``data``.

    >>> corpus_stem(["texts/a.txt", "b.txt"]), corpus_stem("-")
    ('a+b', 'stdin')
    """
    stems = ["stdin" if n == STANDARD_INPUT else Path(n).stem for n in corpus_names(data)]
    return "+".join(stems)[:60]


def pydoc_corpus():
    """The topics of Python's ``help()``: half a megabyte of English text, installed with Python."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise InputError(
            "this Python installation lacks pydoc_data.topics: give a text file with --data FILE"
        ) from None
    return "\n".join(topics[name].strip("\n") + "\n" for name in sorted(topics))


def shakespeare_corpus(url=SHAKESPEARE_URL, sha256=SHAKESPEARE_SHA256, folder=None):
    """Tiny Shakespeare (Karpathy 2015), downloaded once into the user's cache directory and verified by SHA-256.

    Args:
        url: the URL to download from.
        sha256: the expected digest.
        folder: the directory to keep it in; by default ``cache_folder()``.

    Raises:
        InputError: if the download fails, the digest differs, or the cache directory cannot be written to.
    """
    import pooch

    folder = Path(folder or cache_folder())
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        # Errors of mkdir have a filename, network errors do not.
        folder.mkdir(parents=True, exist_ok=True)
        path = pooch.retrieve(
            url,
            known_hash=f"sha256:{sha256}",
            fname="tinyshakespeare.txt",
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=20),
        )
    except ValueError:
        raise InputError(
            f"the download from {url} is not Tiny Shakespeare (its sha256 differs from {sha256}): "
            f"get the file elsewhere and give it with --data FILE"
        ) from None
    except OSError as error:
        if error.filename or isinstance(error, PermissionError) or error.errno in _DISK_ERRORS:
            raise InputError(
                f"cannot write Tiny Shakespeare to {folder} ({error.strerror or 'it cannot be written to'}): "
                f"set TINYATTN_CACHE in the environment to another directory"
            ) from None
        raise InputError(
            f"cannot download Tiny Shakespeare from {url} ({type(error).__name__}): "
            f"get the file elsewhere and give it with --data FILE"
        ) from None
    finally:
        logger.setLevel(level)
    return read_text(path)


# Errors of writing a file, never of the network; pooch raises some of them without a filename.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}


CORPORA = {"pydoc": pydoc_corpus, "shakespeare": shakespeare_corpus}
