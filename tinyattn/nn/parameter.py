"""Parameter: a tensor that is trained."""

from ..autograd import Tensor


class Parameter(Tensor):
    """A trainable tensor: a module registers it when it is assigned as an attribute, and optimizers update it.

    Args:
        data: the initial value, as for ``Tensor``; it is copied.
        requires_grad: False freezes the parameter: it gets no gradient and no update.
        dtype: a floating-point dtype.
        device: the device of the parameter; by default the default device.

    Raises:
        TypeError: for data that is not floating point.

    >>> Parameter([1.0, 2.0])
    Parameter([1., 2.])
    """

    __slots__ = ()

    def __init__(self, data, requires_grad=True, dtype=None, device=None):
        super().__init__(data, dtype=dtype, device=device)
        if self.dtype.kind != "f":
            raise TypeError(
                f"a parameter must be floating point, got {self.dtype}: write 1.0 instead of 1, or pass dtype"
            )
        self.requires_grad = requires_grad

    def _origin(self):
        return "" if self.requires_grad else ", requires_grad=False"
