"""PyTorch's names that tinyattn lacks, with their replacements, for error messages.

Array functions have NumPy's names; layers and optimizers have PyTorch's.
"""

import functools
import inspect

_IN_PLACE = "an assignment x = ..., or x.data[...] = ... outside any graph"
_OF_ARRAYS = {
    name: f"numpy.{name}(x.numpy()): it has no gradient"
    for name in "argsort ceil floor isfinite isinf isnan nonzero round sign sort unique".split()
}

# Attributes of a tensor.
OF_TENSORS = {
    **_OF_ARRAYS,
    **dict.fromkeys(
        "add_ sub_ mul_ div_ copy_ fill_ zero_ normal_ uniform_ clamp_".split(), _IN_PLACE
    ),
    "add": "x + y",
    "addmm": "x @ y + z",
    "all": "(x != 0).all()",
    "any": "(x != 0).any()",
    "bmm": "x @ y",
    "bool": "x != 0",
    "chunk": "split",
    "clamp": "clip",
    "clone": "tinyattn.tensor(x), or x + 0 to stay in the graph",
    "contiguous": "x itself: no operation needs another layout",
    "detach_": "x = x.detach()",
    "dim": "ndim",
    "div": "x / y",
    "dot": "x @ y",
    "double": 'x.astype("float64")',
    "expand": "broadcast_to",
    "expand_as": "x.broadcast_to(y.shape)",
    "float": 'x.astype("float32")',
    "gather": "an index: x[rows, columns]",
    "half": 'x.astype("float16")',
    "index_select": "take",
    "int": 'x.astype("int32")',
    "is_cuda": "device",
    "long": 'x.astype("int64")',
    "masked_fill_": "masked_fill",
    "masked_select": "x[mask]",
    "maximum": "tinyattn.maximum(x, y)",
    "minimum": "tinyattn.minimum(x, y)",
    "mm": "x @ y",
    "mul": "x * y",
    "narrow": "a slice: x[start:stop]",
    "neg": "-x",
    "nelement": "size",
    "new_ones": "tinyattn.ones_like(x)",
    "new_zeros": "tinyattn.zeros_like(x)",
    "norm": "x.square().sum().sqrt()",
    "numel": "size",
    "permute": "transpose",
    "pow": "x**y",
    "repeat": "broadcast_to, or tinyattn.concatenate([x, x])",
    "requires_grad_": "x.requires_grad = True",
    "scatter_": "tinyattn.where(mask, values, x)",
    "select": "an index: x[position]",
    "stride": "x.data.strides",
    "sub": "x - y",
    "t": "T",
    "tile": "tinyattn.concatenate([x, x])",
    "topk": "numpy.argpartition(x.numpy(), -k)",
    "type": "dtype, or astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "list(x)",
    "unflatten": "reshape",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "view_as": "x.reshape(y.shape)",
    "where": "tinyattn.where(mask, x, y)",
}

_DTYPES = {
    name: f'the string "{name}" or numpy.{name}: dtypes are NumPy\'s'
    for name in "float16 float32 float64 int8 int16 int32 int64 uint8 complex64".split()
}

# Names in the package.
OF_PACKAGE = {
    **_DTYPES,
    **{name: f"numpy.{name}(x.numpy()): it has no gradient" for name in _OF_ARRAYS},
    "Generator": "backend.Random(seed)",
    "Parameter": "nn.Parameter",
    "allclose": "numpy.allclose(x.numpy(), y.numpy())",
    "as_tensor": "tensor",
    "asarray": "tensor",
    "binary_cross_entropy": "binary_cross_entropy_with_logits, which takes logits and not probabilities",
    "bmm": "matmul",
    "bool": 'the string "bool": dtypes are NumPy\'s',
    "cat": "concatenate",
    "chunk": "split",
    "clamp": "clip",
    "concat": "concatenate",
    "cuda": 'device("cuda")',
    "double": 'the string "float64": dtypes are NumPy\'s',
    "dot": "matmul",
    "empty": "zeros",
    "equal": "(x == y).all()",
    "float": 'the string "float32": dtypes are NumPy\'s',
    "from_numpy": "tensor",
    "functional": "the functions of the package itself, such as tinyattn.relu",
    "hstack": "concatenate(arrays, axis=-1)",
    "inference_mode": "no_grad",
    "linspace": "tensor(numpy.linspace(start, stop, count))",
    "long": 'the string "int64": dtypes are NumPy\'s',
    "mm": "matmul",
    "norm": "sqrt(sum(square(x)))",
    "normal": "randn",
    "numel": "x.size",
    "outer": "x[:, None] * y",
    "permute": "transpose",
    "randint": "tensor(numpy.random.default_rng(seed).integers(low, high, shape))",
    "randn_like": "randn(*x.shape)",
    "rand_like": "rand(*x.shape)",
    "randperm": "backend.Random(seed).permutation(count)",
    "seed": "manual_seed",
    "topk": "numpy.argpartition(x.numpy(), -k)",
    "unbind": "list(x)",
    "unsqueeze": "expand_dims",
    "utils": "data.ArrayBatches for batches, optim.clip_grad_norm for clipping",
    "vstack": "concatenate(arrays, axis=0)",
}

# Names in ``nn``.
OF_LAYERS = {
    "BCELoss": "tinyattn.binary_cross_entropy_with_logits, which takes logits and not probabilities",
    "BCEWithLogitsLoss": "tinyattn.binary_cross_entropy_with_logits(logits, target)",
    "BatchNorm1d": "LayerNorm",
    "Conv1d": "CausalConvolution",
    "CrossEntropyLoss": "tinyattn.cross_entropy(logits, target)",
    "Flatten": "x.reshape(len(x), -1)",
    "LSTM": "GRU",
    "LeakyReLU": "tinyattn.where(x > 0, x, 0.01 * x)",
    "LogSoftmax": "tinyattn.log_softmax(x, axis=-1)",
    "MSELoss": "tinyattn.mse_loss(prediction, target)",
    "ModuleDict": "an attribute for each module",
    "MultiheadAttention": "MultiHeadAttention",
    "NLLLoss": "tinyattn.nll_loss(log_probabilities, target)",
    "ParameterList": "an attribute for each parameter",
    "RNN": "GRU",
    "Softmax": "tinyattn.softmax(x, axis=-1)",
    "Transformer": "models.GPT or models.Encoder",
    "TransformerEncoder": "models.Encoder",
    "TransformerEncoderLayer": "TransformerBlock",
    "functional": "the functions of the package itself, such as tinyattn.relu",
    "init": "data: layer.weight.data[...] = ...",
    "utils": "tinyattn.optim.clip_grad_norm for clipping",
}

# Names in ``optim``.
OF_OPTIMIZERS = {
    "Adam": "AdamW(parameters, weight_decay=0.0)",
    "RMSprop": "AdamW",
    "clip_grad_norm_": "clip_grad_norm",
    "lr_scheduler": "schedules: optimizer.lr = schedules.warmup_cosine(step, ...)",
}

ARGUMENTS = {
    "correction": "ddof",
    "dim": "axis",
    "dim0": "axis1",
    "dim1": "axis2",
    "dims": "axis",
    "keepdim": "keepdims",
    "unbiased": "ddof",
}


def missing(owner, name, names):
    """The AttributeError for ``name``, which ``owner`` lacks, with the replacement from ``names`` if there is one.

    >>> print(missing("module 'tinyattn'", "cat", OF_PACKAGE))
    module 'tinyattn' has no attribute 'cat', which is PyTorch's name: use concatenate
    """
    use = names.get(name)
    hint = f", which is PyTorch's name: use {use}" if use else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")


class NamedOtherwise:
    """An attribute of tensors that raises the AttributeError with the hint.

    A descriptor, because ``__getattr__`` would slow down all attributes of a tensor.
    """

    def __init__(self, name):
        self._name = name

    def __get__(self, tensor, owner):
        raise missing(f"{owner.__name__!r} object", self._name, OF_TENSORS)


def hint_for_argument(name):
    """The hint for an unknown argument: our name if it is PyTorch's, else an empty string.

    >>> hint_for_argument("dim"), hint_for_argument("x")
    ('; axis is what PyTorch calls dim', '')
    """
    return f"; {ARGUMENTS[name]} is what PyTorch calls {name}" if name in ARGUMENTS else ""


def with_numpys_arguments(function):
    """Decorator for functions that are not primitives: PyTorch's argument names raise a TypeError with a hint."""
    own = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args, **keywords):
        for name in keywords:
            if name in ARGUMENTS and name not in own:
                raise TypeError(
                    f"{function.__name__}() has no argument {name}: "
                    f"expected {function.__name__}{inspect.signature(function)}{hint_for_argument(name)}"
                )
        return function(*args, **keywords)

    return call


class ElementCount(int):
    """The ``size`` of a tensor: an integer that raises a TypeError with a hint if it is called as in PyTorch."""

    __slots__ = ()

    def __call__(self, axis=None):
        use = "x.shape" if axis is None else f"x.shape[{axis!r}]"
        raise TypeError(
            f"size is the number of elements, {int(self)}, and not a function: use {use}"
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        # NumPy treats only exact Python numbers as scalars without a dtype (NEP 50).
        plain = [int(value) if isinstance(value, ElementCount) else value for value in inputs]
        return getattr(ufunc, method)(*plain, **keywords)

    def __reduce__(self):
        return int, (int(self),)
