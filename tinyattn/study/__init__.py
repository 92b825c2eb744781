"""Explanations of operations, the explorer page, and figures.

``ta.study.explain("softmax")`` explains an operation with numbers; ``ta.study.explore(model, text)`` creates the
explorer page of a model on a text; ``attention_maps``, ``head_report``, ``loss_curve`` and ``draw_graph`` draw figures;
``observe`` returns the underlying arrays, and ``model.record(...)`` any activation with its gradient. Each name is
imported on first use.
"""

import importlib

_MODULES = {
    "Observation": "observation",
    "attention_maps": "pictures",
    "draw_graph": "graph",
    "explain": "explanation",
    "explore": "explorer",
    "head_report": "pictures",
    "loss_curve": "pictures",
    "measure_heads": "heads",
    "observe": "observation",
}

__all__ = [*_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
