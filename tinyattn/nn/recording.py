"""Record the outputs of a model's modules and their gradients."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ..attention import attention_kind
from ..autograd import Tensor
from .attention import MultiHeadAttention


class Recording(Mapping):
    """A context manager that records the outputs of modules, and their gradients after a backward pass.

    ``Module.record`` creates it; it can be read after the block. It maps dotted module names to ``Record``, in the
    order of the first calls.
    """

    def __init__(self, model, patterns):
        # Some attention kinds have no weights: a pattern that matches them among others does not require them.
        absent = {
            id(place)
            for module in model.modules()
            if isinstance(module, MultiHeadAttention)
            and not attention_kind(module.kind).has_weights
            for place in (module.scores, module.weights)
        }

        def is_requested(name, module, pattern):
            if id(module) in absent and not name.endswith(pattern):
                return False
            return _matches(name, pattern)

        self._modules = [
            (name, module)
            for name, module in model.named_modules()
            if name and any(is_requested(name, module, pattern) for pattern in patterns or ["*"])
        ]
        for pattern in patterns:
            if not any(_matches(name, pattern) for name, _ in self._modules):
                names = ", ".join(name for name, _ in model.named_modules() if name)
                raise ValueError(
                    f"record({pattern!r}) matches no module of this {type(model).__name__}: "
                    f"expected a name, the last parts of a name, or a pattern such as 'blocks.*'; modules: {names}"
                )
        self._records = {}
        self._handles = []

    def __enter__(self):
        for name, module in self._modules:
            self._handles.append(module.register_forward_hook(self._hook(name)))
        return self

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, name):
        def record_output(module, args, output):
            if isinstance(output, tuple):
                output = output[0]
            if isinstance(output, Tensor):
                self._records[name] = Record(name, output)

        return record_output

    @property
    def names(self):
        """The names of the recorded modules, in the order of their first call."""
        return list(self._records)

    @property
    def shapes(self):
        """The shape of each output, by name."""
        return {name: record.shape for name, record in self._records.items()}

    def __getitem__(self, name):
        if name not in self._records:
            known = ", ".join(self._records) or "nothing: call the model inside the with block"
            raise KeyError(f"no record of {name!r}; recorded: {known}")
        return self._records[name]

    def __iter__(self):
        return iter(self._records)

    def __len__(self):
        return len(self._records)

    def __repr__(self):
        lines = [f"  {name}: {record.shape}" for name, record in self._records.items()]
        return "\n".join(["Recording(", *lines, ")"])


class Record:
    """The output of a module in its last call.

    Attributes:
        name: the module's dotted name.
        tensor: the output as part of the graph: ``ta.grad(loss, record[...].tensor)`` works.
        shape, dtype: those of the output.
    """

    def __init__(self, name, tensor):
        self.name = name
        self.tensor = tensor
        last = self._last = {}
        if tensor.requires_grad:
            # The hook refers to ``last`` and not to ``self``, which would make a reference cycle with the graph.
            tensor.register_hook(lambda gradient: last.update(gradient=gradient.numpy()))

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def dtype(self):
        return self.tensor.dtype

    @property
    def value(self):
        """The output as a NumPy array on the host."""
        return self.tensor.numpy()

    @property
    def gradient(self):
        """The gradient of the output in the last backward pass, a NumPy array; None before the first backward pass."""
        return self._last.get("gradient")

    def __repr__(self):
        state = "no gradient yet" if self.gradient is None else "with its gradient"
        return f"<Record {self.name} {self.shape}, {state}>"


def _matches(name, pattern):
    """Whether ``pattern`` matches the dotted name or its last parts.

    >>> _matches("blocks.0.attention.scores", "attention.scores")
    True
    >>> _matches("blocks.0.attention.scores", "blocks.*.scores")
    True
    >>> _matches("blocks.0.attention.scores", "tention.scores")
    False
    """
    return fnmatchcase(name, pattern) or fnmatchcase(name, "*." + pattern)
