"""GPT-2 in the format of Hugging Face: a folder with ``config.json`` and ``model.safetensors``.

``GPT.from_pretrained`` and ``GPT.save_pretrained`` read and write it; PyTorch is not needed. The parts: ``settings``
converts ``config.json``, ``layout`` names the tensors, ``folder`` reads and writes them.

Source of the format: the documentation and the classes ``GPT2Config`` and ``GPT2LMHeadModel`` of ``transformers``.
"""

from .folder import is_folder, load, read_arrays, read_settings, save
from .layout import layout
from .settings import differences, from_settings, to_settings

__all__ = [
    "differences",
    "from_settings",
    "is_folder",
    "layout",
    "load",
    "read_arrays",
    "read_settings",
    "save",
    "to_settings",
]
