"""Stochastic gradient descent, optionally with momentum."""

from .optimizer import Optimizer


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum.

    With g the gradient, plus ``weight_decay`` times the parameter p:
        b = momentum b + (1 - dampening) g   (in the first step b = g)
        p = p - lr b,   with Nesterov momentum   p = p - lr (g + momentum b).

    Args:
        params: parameters, named parameters or groups: see ``Optimizer``.
        lr: learning rate.
        momentum: momentum factor; 0 for none.
        dampening: dampening of the gradient in the momentum buffer.
        weight_decay: coefficient of the L2 penalty, added to the gradient.
        nesterov: use Nesterov momentum, which requires momentum and no dampening.

    Source: I. Sutskever et al., "On the importance of initialization and momentum in deep learning" (2013), in the
    form that PyTorch computes.

    >>> import tinyattn as ta
    >>> p = ta.tensor([1.0], requires_grad=True)
    >>> optimizer = SGD([p], lr=0.1)
    >>> (p * 5.0).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.5]
    """

    buffers = ("momentum",)

    def __init__(
        self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False
    ):
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def check(self, group):
        super().check(group)
        if not group["momentum"] >= 0:
            raise ValueError(f"momentum must be at least 0, got {group['momentum']}")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ValueError(
                f"nesterov requires momentum above 0 and dampening 0, got {group['momentum']} and {group['dampening']}"
            )

    def block_update(self, member, step):
        return self.bind_update(sgd_update, member, step)


def sgd_update(arrays, block, *, step, lr, momentum, dampening, weight_decay, nesterov):
    """The update rule of SGD on a slice of arrays, in place.

    Args:
        arrays: values, gradient and momentum buffer, of the same length.
        block: the slice.
        lr, momentum, dampening, weight_decay: Python numbers, which do not change the dtype.
    """
    values, gradient, momentum_buffer = (array[block] for array in arrays)
    if weight_decay:
        gradient = gradient + weight_decay * values
    if momentum:
        if step == 1:
            momentum_buffer[...] = gradient
        else:
            momentum_buffer *= momentum
            momentum_buffer += (1 - dampening) * gradient
        gradient = gradient + momentum * momentum_buffer if nesterov else momentum_buffer
    values -= lr * gradient
