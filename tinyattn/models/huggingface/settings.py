"""``config.json`` of a GPT-2 and the settings of a ``GPT``.

Options that change the computation are converted or refused by name. Options that only concern training of the original
model, generation or other tasks are not read.
"""

from dataclasses import replace

from ...attention import attention_kind
from ...data.errors import InputError
from ...error_messages import shown
from ..gpt import GPTConfig

# Name there, name here.
NAMES = {
    "vocab_size": "vocabulary_size",
    "n_positions": "block_size",
    "n_layer": "layers",
    "n_head": "heads",
    "n_embd": "dim",
    "n_inner": "feed_forward_dim",
}
# Activation there, activation here; for a value on the right the first name is written.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
# Options of which this model has one value only; GPT-2's default is the same.
FIXED = {
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}
ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")
# Settings that make a GPT a GPT-2, beside those that have a name there.
GPT2 = {
    "positions": "learned",
    "norm": "pre",
    "norm_kind": "layer_norm",
    "qk_norm": False,
    "bigram_rows": 0,
    "previous_embedding": False,
}


def from_settings(values, name="config.json", **changes):
    """The ``GPTConfig`` of a GPT-2.

    Args:
        values: the content of ``config.json``, a dict; what it leaves out is as in GPT-2 with 124 million parameters.
        name: the name of the file in error messages.
        changes: settings of the ``GPTConfig`` that replace those of the file, such as ``dropout=0.0``; ``block_size``
            may be smaller than that of the file.

    Raises:
        InputError: for another architecture, an activation or option that ``GPT`` does not have, or an invalid value.

    >>> from_settings({"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 3}, dropout=0.0).dim
    48
    """
    if not isinstance(values, dict):
        raise InputError(f"{name} must contain a JSON object, given {shown(values)}")
    _check_architecture(values, name)
    for option, fixed in FIXED.items():
        if option in values and values[option] != fixed:
            raise InputError(
                f"{name} has {option} {shown(values[option])}, which is another computation: GPT has {fixed} only"
            )
    activation = values.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(
            f"{name} has the activation_function {shown(activation)}: expected one of {', '.join(ACTIVATIONS)}"
        )
    settings = {here: values[there] for there, here in NAMES.items() if there in values}
    settings |= {
        "activation": ACTIVATIONS[activation],
        "tie_head": values.get("tie_word_embeddings", True),
    }
    if "dropout" not in changes:
        settings["dropout"] = _dropout(values, name)
    try:
        config = GPTConfig.gpt2(**settings)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not usable: {error}") from None
    if changes.get("block_size", 1) > config.block_size:
        raise InputError(
            f"block_size must be at most the {config.block_size} positions of {name}, given {changes['block_size']}"
        )
    return replace(config, **changes)


def _check_architecture(values, name):
    if {"architecture", "optimization"} & values.keys():
        raise InputError(
            f"{name} belongs to a run of tinyattn train, not to a GPT-2: load it with tinyattn.train.load_run"
        )
    kind = values.get("model_type")
    if kind != "gpt2":
        given = "no model_type" if kind is None else f"the model_type {shown(kind)}"
        raise InputError(f'{name} has {given}: expected a GPT-2, "model_type": "gpt2"')
    classes = values.get("architectures") or ARCHITECTURES[:1]
    if not isinstance(classes, list | tuple) or not set(map(str, classes)) <= set(ARCHITECTURES):
        raise InputError(
            f"{name} has the architectures {shown(classes)}: expected {' or '.join(ARCHITECTURES)}"
        )


def _dropout(values, name):
    given = {option: values.get(option, 0.1) for option in DROPOUTS}
    if len(set(map(str, given.values()))) > 1:
        found = ", ".join(f"{option} {shown(value)}" for option, value in given.items())
        raise InputError(
            f"{name} has several dropout probabilities ({found}), and GPT has one: pass dropout="
        )
    return given[DROPOUTS[0]]


def to_settings(config, end_of_text=None):
    """The content of ``config.json`` for a ``GPTConfig``, a dict.

    Args:
        config: a ``GPTConfig``.
        end_of_text: the id of the token that separates documents, or None.

    Raises:
        InputError: if GPT-2 cannot express the model; the message lists the settings that would have to differ.

    >>> to_settings(GPTConfig.gpt2(layers=2))["n_layer"]
    2
    """
    wrong = differences(config)
    if wrong:
        raise InputError(
            f"GPT-2 cannot express this model: it would need {', '.join(wrong)} "
            f"(tinyattn train --preset gpt2-shaped trains one that it can)"
        )
    activation = next(there for there, here in ACTIVATIONS.items() if here == config.activation)
    return {
        "architectures": ARCHITECTURES[:1],
        "model_type": "gpt2",
        **{there: getattr(config, here) for there, here in NAMES.items()},
        "n_ctx": config.block_size,
        "activation_function": activation,
        "tie_word_embeddings": config.tie_head,
        **dict.fromkeys(DROPOUTS, config.dropout),
        **FIXED,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
    }


def differences(config):
    """What would have to differ in a ``GPTConfig`` for GPT-2 to express it, a list of clauses; empty if nothing.

    >>> differences(GPTConfig(positions="learned"))
    ['qk_norm False instead of True', 'previous_embedding False instead of True']
    """
    wanted = {**GPT2, "norm": config.norm and "pre"}
    wrong = [
        f"{name} {value} instead of {getattr(config, name)}"
        for name, value in wanted.items()
        if getattr(config, name) != value
    ]
    if config.activation not in ACTIVATIONS.values():
        allowed = " or ".join(dict.fromkeys(ACTIVATIONS.values()))
        wrong.append(f"activation {allowed} instead of {config.activation}")
    kind = attention_kind(config.attention)
    if not kind.is_exact:
        wrong.append(f"attention dense instead of {config.attention}")
    return wrong
