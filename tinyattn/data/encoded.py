"""The ids of a long text, encoded once and kept as a memory-mapped file in the user's cache directory.

The file ``KEY.ids`` contains the ids of the parts of a text one after another, little-endian, and then ``RECORD`` bytes
of JSON: the key, the dtype, the lengths of the parts, and the digest of these and of the ids. The key is a digest of
the text and of the tokenizer's identity, so that another text or tokenizer has another file. A file is written under a
temporary name and renamed (data/atomic.py): two processes that encode the same text both end with a complete file.

Trade-offs. The ids are hashed each time a file is opened, at about 1 GB/s, so that damage is found before training.
Mapped ids need no memory of their own: the system reads the pages that batches touch, and may drop them again.
"""

import contextlib
import hashlib
import json
import mmap
import time
import warnings

import numpy as np

from .atomic import write_atomic
from .cache import cache_folder
from .errors import InputError, InputWarning
from .json_text import digest_of, parse_json

LONG = 2_000_000  # characters; a shorter text is encoded in a few seconds at most
RECORD = 512  # bytes at the end of a file, padded with spaces
DAY = 86_400  # seconds


def encoded_parts(parts, tokenizer, text_digest, watch=None):
    """The ids of each of ``parts``, read-only arrays, from a file or, the first time, encoded and written to it.

    A file that is damaged is written again, with an ``InputWarning``. If the cache directory cannot be written to, the
    ids are in memory, with an ``InputWarning`` too.

    Args:
        parts: the strings that the text is split into.
        tokenizer: a ``Tokenizer``.
        text_digest: a digest of the text.
        watch: called with ``(done, total)``, numbers of characters, during encoding.

    >>> import os, tempfile
    >>> from tinyattn.data import ByteTokenizer
    >>> os.environ["TINYATTN_CACHE"] = tempfile.mkdtemp()
    >>> train, validation = encoded_parts(["to be", "or"], ByteTokenizer(), "digest")
    >>> bytes(train), bytes(validation), len(os.listdir(os.environ["TINYATTN_CACHE"]))
    (b'to be', b'or', 1)
    >>> del os.environ["TINYATTN_CACHE"]
    """
    lengths = [len(part) for part in parts]
    key = digest_of({"text": text_digest, "tokenizer": tokenizer.identity, "parts": lengths})
    try:
        path = cache_folder() / f"{key[:32]}.ids"
    except (InputError, ImportError) as error:
        _warn(f"the encoded text cannot be kept for the next time: {error}")
        return _in_memory(parts, tokenizer, watch)
    try:
        if path.exists():
            try:
                return _mapped(path, key)
            except ValueError as error:
                _warn(f"{path} is damaged ({error}): the text is encoded again")
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        write_atomic(path, _content(parts, tokenizer, key, watch))
        return _mapped(path, key)
    except OSError as error:
        _warn(
            f"the encoded text cannot be kept for the next time in {path.parent} ({error.strerror or error}): "
            f"set TINYATTN_CACHE in the environment to another directory"
        )
    return _in_memory(parts, tokenizer, watch)


def _remove_leftovers(folder):
    """Remove the temporary files of killed processes: those that nothing was written to for a day."""
    for path in folder.glob(".*.ids.*.new"):
        with contextlib.suppress(OSError):  # another process has removed it
            if time.time() - path.stat().st_mtime > DAY:
                path.unlink()


def _in_memory(parts, tokenizer, watch):
    encoded = list(_encoded(parts, tokenizer, watch))
    return [np.concatenate([ids for of, ids in encoded if of == k]) for k in range(len(parts))]


def _encoded(parts, tokenizer, watch):
    """Yield the number of the part and the ids, for one piece of text after another."""
    done, total = 0, sum(map(len, parts))
    for number, part in enumerate(parts):
        yield number, np.empty(0, tokenizer.dtype)  # a part may be empty
        for piece in tokenizer.pieces(part):
            yield number, tokenizer.encode(piece)
            done += len(piece)
            if watch is not None:
                watch(done, total)


def _content(parts, tokenizer, key, watch):
    """Yield the content of the file, as buffers."""
    dtype = tokenizer.dtype.newbyteorder("<")
    lengths, digest = [0] * len(parts), hashlib.sha256()
    for number, ids in _encoded(parts, tokenizer, watch):
        content = np.ascontiguousarray(ids, dtype).tobytes()
        lengths[number] += len(ids)
        digest.update(content)
        yield content
    record = {"key": key, "dtype": dtype.str, "lengths": lengths}
    digest.update(json.dumps(record).encode())
    yield json.dumps({**record, "sha256": digest.hexdigest()}).encode().ljust(RECORD)


def _mapped(path, key):
    """The ids in a file, mapped.

    Raises:
        ValueError: if the file is damaged.
        OSError: from the operating system.
    """
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    record = parse_json(content[-RECORD:].decode("ascii"), "its end")
    try:
        found, lengths = record.pop("sha256"), record["lengths"]
        if record["key"] != key:
            raise ValueError("it is of another text")
        ids = np.frombuffer(content, record["dtype"], sum(lengths))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"its end: {error}") from None
    digest = hashlib.sha256(ids)
    digest.update(json.dumps(record).encode())
    if ids.nbytes + RECORD != len(content) or digest.hexdigest() != found:
        raise ValueError("its digest differs")
    return np.split(ids, np.cumsum(lengths[:-1]))


def _warn(text):
    warnings.warn(text, InputWarning, stacklevel=3)
