"""The folder of a GPT-2: ``config.json`` and ``model.safetensors``, or several files with an index."""

import json
from functools import partial
from pathlib import Path

import numpy as np

from ...backend import get_backend
from ...data.atomic import write_atomic
from ...data.errors import InputError
from ...data.json_text import parse_json
from ...data.paths import readable_file
from ...data.safetensors_file import map_tensors, write_tensors
from ...nn.parameter import without_memory
from ...nn.placement import adopt
from .layout import EMBEDDING, HEAD, IGNORED, PREFIX, layout
from .settings import from_settings, to_settings

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
UNREAD = ("pytorch_model*.bin", "tf_model.h5", "flax_model.msgpack", "*.ckpt")
MOST_NAMED = 4  # tensors that an error message names


def load(model_class, folder, *, dtype=None, device=None, **changes):
    """Implements ``GPT.from_pretrained`` for ``GPT`` or a subclass."""
    config = read_settings(folder, **changes)
    arrays = read_arrays(folder, config.block_size)
    with without_memory():
        model = model_class(config)
    is_double = any(array.dtype == np.float64 for array in arrays.values())
    stored = np.float64 if is_double else np.float32
    for name, parameter in model.named_parameters():
        adopt(parameter, arrays[name].astype(stored, copy=False))
    return model.to(device=get_backend(device).device, dtype=dtype).eval()


def save(model, folder, end_of_text=None):
    """Implements ``GPT.save_pretrained``."""
    values = to_settings(model.config, end_of_text)
    parameters = dict(model.named_parameters())
    entries = layout(model.config)
    unknown = parameters.keys() - {name for entry in entries for name in entry.parameters}
    if unknown:
        raise InputError(f"GPT-2 has no parameter {min(unknown)}: this model was changed")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    prefix = {HEAD: ""}
    tensors = {
        prefix.get(entry.name, PREFIX) + entry.name: partial(_array, entry, parameters)
        for entry in entries
    }
    write_tensors(folder / WEIGHTS, tensors)
    write_atomic(folder / CONFIG, json.dumps(values, indent=2) + "\n")


def _array(entry, parameters):
    """The array of an entry; a bias that the model does not have is 0."""
    if entry.parameters[0] not in parameters:
        dtype = next(iter(parameters.values())).dtype
        return np.zeros(entry.shape, dtype)
    return entry.join([parameters[name].numpy() for name in entry.parameters])


def is_folder(folder):
    """Whether ``folder`` is one of a Hugging Face model, of any kind and perhaps incomplete, and not that of a run."""
    folder = Path(folder)
    try:
        if (folder / WEIGHTS).exists() or (folder / INDEX).exists() or _unread(folder):
            return True
        return "model_type" in parse_json(_read_text(folder / CONFIG), CONFIG)
    except (InputError, OSError, TypeError):
        return False


def read_settings(folder, **changes):
    """The ``GPTConfig`` in the ``config.json`` of ``folder``; ``changes`` as for ``from_settings``.

    Raises:
        InputError: if there is no such file, or the model is not a ``GPT``.
    """
    folder = Path(folder)
    path = folder / CONFIG
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: give one with {CONFIG} and {WEIGHTS}")
    return from_settings(parse_json(_read_text(path), str(path)), str(path), **changes)


def read_arrays(folder, block_size=None):
    """The parameters of the ``GPT`` in ``folder``, a dict of names to arrays, views of the mapped files.

    Args:
        folder: a path.
        block_size: number of positions to read; all by default.

    Raises:
        InputError: if a file is missing or damaged, or if a tensor is missing, left over, or of another shape.
    """
    folder = Path(folder)
    entries = layout(read_settings(folder, dropout=0.0))
    tensors = _tensors(folder)
    names = {entry.name for entry in entries}
    copy_of_embedding = None if HEAD in names else tensors.pop(HEAD, None)
    wrong = []
    for entry in entries:
        if entry.name not in tensors:
            wrong.append(f"{entry.name} is missing")
        elif tensors[entry.name].shape != entry.shape:
            wrong.append(
                f"{entry.name} has shape {tensors[entry.name].shape}, expected {entry.shape}"
            )
    wrong += [f"{name} is left over" for name in tensors if name not in names]
    if not wrong and copy_of_embedding is not None:
        if not np.array_equal(copy_of_embedding, tensors[EMBEDDING]):
            wrong.append(f"{HEAD} is not {EMBEDDING}, as tie_word_embeddings says")
    if wrong:
        more = len(wrong) - MOST_NAMED
        listed = "; ".join(wrong[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(f"the tensors in {folder} do not fit its {CONFIG}: {listed}")
    arrays = {}
    for entry in entries:
        arrays |= entry.split(tensors[entry.name])
    arrays["positions.weight"] = arrays["positions.weight"][:block_size]
    return arrays


def _tensors(folder):
    """All tensors in ``folder`` but constants, a dict of names without ``PREFIX`` to arrays."""
    tensors = {}
    for path, expected in _files(folder).items():
        found = map_tensors(path, lambda name: IGNORED.fullmatch(name.removeprefix(PREFIX)))
        for name in expected:
            if name not in found and not IGNORED.fullmatch(name.removeprefix(PREFIX)):
                raise InputError(f"{path} lacks the tensor {name}, which {INDEX} expects there")
        for name, array in found.items():
            short = name.removeprefix(PREFIX)
            if short in tensors:
                raise InputError(
                    f"{path} has the tensor {short}, which was already read: expected it once"
                )
            tensors[short] = array
    return tensors


def _files(folder):
    """The safetensors files of ``folder``: a dict of path to the names that the index expects in it."""
    if (folder / WEIGHTS).exists():
        return {folder / WEIGHTS: ()}
    path = folder / INDEX
    if not path.exists():
        unread = _unread(folder)
        if unread:
            raise InputError(
                f"{folder} has no {WEIGHTS} but {unread[0]}, which is not read, because such a file can run code: "
                f"convert it with save_pretrained of transformers"
            )
        raise InputError(
            f"{folder} has no weights: expected {WEIGHTS}, or several files with {INDEX}"
        )
    files = {}
    try:
        for name, file in parse_json(_read_text(path), str(path))["weight_map"].items():
            files.setdefault(file, []).append(name)
        valid = all(Path(file).name == file for file in files)
    except (AttributeError, KeyError, TypeError):
        valid = False
    if not valid or not files:
        raise InputError(
            f"{path} is not an index: expected a weight_map of tensor and file, with files of the same folder"
        )
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        raise InputError(
            f"{folder / missing[0]} is missing: {INDEX} names {len(files)} files with weights, and all are needed"
        )
    return {folder / file: names for file, names in files.items()}


def _unread(folder):
    """The names of files in ``folder`` with weights in other formats, which are never read."""
    return sorted(path.name for pattern in UNREAD for path in folder.glob(pattern))


def _read_text(path):
    try:
        return readable_file(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: expected a folder with {CONFIG} and {WEIGHTS}"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
