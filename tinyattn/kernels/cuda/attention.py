"""Scaled dot-product attention in tiles: one launch forward, two backward, and no array of all scores.

Trade-offs:

- More arithmetic for less memory: backward computes scores and weights again, once for the queries and once for the
  keys, so that each thread sums in its own registers. There are no atomic additions, and runs are bit-identical.
- Products use the float32 units, not tensor cores: they are exact in float32, and all dtypes share the code.
- Heads that are views of a projection, (batch, length, heads, head_dim), are read and written without a copy.
- Head sizes other than 16, 32, 64 and 128 are padded with zeros to the next of these, in registers and shared memory.

The portable kernel computes heads of more than 128 features, and leading axes that broadcast.

Source: T. Dao et al., "FlashAttention" (2022), algorithms 1 and 4; T. Dao, "FlashAttention-2" (2023), section 3.2, for
the division of the work.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend import backend_of
from ..portable import attention as portable
from .dropout import mask_numbers
from .launch import launch
from .rows import contiguous, heads_swapped, is_floating, wide

_THREADS = 128
_HEAD_DIMS = (16, 32, 64, 128)  # the kernels are compiled for these
# The longest sequence: the largest grid along its second axis, with the fewest rows per block.
LONGEST = 65535 * (_THREADS // 4)


def forward(q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None):
    if dropout_p >= 1 or not is_floating(q, k, v):
        return NotImplemented
    if not _fits(q, k, v, mask):
        result = portable.forward(
            q, k, v, mask, causal=causal, scale=scale, dropout_p=dropout_p, dropout_key=dropout_key
        )
        if result is NotImplemented:
            return NotImplemented
        out, residuals = result
        return out, (portable.backward, residuals)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    call = AttentionCall(q, k, v, mask, causal, scale, dropout_p, dropout_key)
    return call.forward(), (AttentionCall.backward, call)


def backward(g, residuals):
    function, data = residuals
    return function(data, g) if isinstance(data, AttentionCall) else function(g, data)


def _fits(q, k, v, mask):
    if not 2 <= q.ndim <= 4 or q.ndim != k.ndim or k.ndim != v.ndim:
        return False
    if k.shape[:-2] != q.shape[:-2] or v.shape[:-1] != k.shape[:-1] or k.shape[-1] != q.shape[-1]:
        return False
    if max(q.shape[-1], v.shape[-1]) > _HEAD_DIMS[-1] or 0 in q.shape + k.shape + v.shape:
        return False
    if max(q.shape[-2], k.shape[-2]) > LONGEST:
        return False
    return mask is None or (mask.dtype == np.bool_ and mask.ndim <= q.ndim and mask.size < 2**31)


class AttentionCall:
    """One call of attention: its inputs as (batch, heads, length, width), and what forward saves for backward."""

    def __init__(self, q, k, v, mask, causal, scale, dropout_p, dropout_key):
        self.leading = q.shape[:-2]
        self.swapped = any(heads_swapped(array) for array in (q, k, v))
        self.q, self.k, self.v = (self._laid_out(array) for array in (q, k, v))
        batch, heads, queries, head_dim = self.q.shape
        keys, value_dim = self.v.shape[2:]
        largest = max(head_dim, value_dim)
        self.head_dim = next(size for size in _HEAD_DIMS if size >= largest)
        rows = _THREADS // max(1, self.head_dim // 32)  # queries, or keys, of a block
        self.grid_of_queries = batch * heads, -(-queries // rows)
        self.grid_of_keys = batch * heads, -(-keys // rows)
        strides = 0, 0, 0, 0
        if mask is not None:
            mask = contiguous(mask)
            shape = (1,) * (4 - mask.ndim) + mask.shape
            steps = [math.prod(shape[axis + 1 :]) for axis in range(4)]
            strides = tuple(0 if length == 1 else step for length, step in zip(shape, steps))
        self.mask = mask
        self.numbers = (
            heads,
            queries,
            keys,
            head_dim,
            value_dim,
            self.swapped,
            causal,
            scale,
            *strides,
            *mask_numbers(dropout_p, dropout_key),
        )

    def forward(self):
        self.out = self._empty_like(self.q, self.v.shape[-1])
        self.log_sum_exp = self._empty_numbers()
        arrays = self.q, self.k, self.v, self.mask, self.out, self.log_sum_exp
        self._launch("attention_forward", self.grid_of_queries, *arrays)
        return self._in_shape(self.out)

    def backward(self, g, out=None):
        """The cotangents of q, k, v and the mask; the first three in the arrays ``out``, laid out as q, if given."""
        g = self._laid_out(g)
        if out is None:
            out = [self._empty_like(array) for array in (self.q, self.k, self.v)]
        dq, dk, dv = out
        delta = self._empty_numbers()
        inputs = g, self.q, self.k, self.v, self.mask
        rest = self.out, self.log_sum_exp, delta, dq
        self._launch("attention_backward_queries", self.grid_of_queries, *inputs, *rest)
        rest = self.log_sum_exp, delta, dk, dv
        self._launch("attention_backward_keys", self.grid_of_keys, *inputs, *rest)
        return self._in_shape(dq), self._in_shape(dk), self._in_shape(dv), None

    def _launch(self, name, grid, *arrays):
        template = self.q.dtype, self.head_dim
        launch("attention.cu", name, template, grid, _THREADS, *arrays, *self.numbers)

    def _laid_out(self, array):
        """(batch, heads, length, width), contiguous, or contiguous with heads and length swapped."""
        if not self.swapped:
            array = contiguous(array)
            return array.reshape((1,) * (4 - array.ndim) + array.shape)
        array = contiguous(array.swapaxes(-3, -2)).swapaxes(-3, -2)
        return array[None] if array.ndim == 3 else array

    def _empty_like(self, array, width=None):
        batch, heads, length, own = array.shape
        width = own if width is None else width
        backend = backend_of(array)
        if self.swapped:
            return backend.empty((batch, length, heads, width), array.dtype).swapaxes(1, 2)
        return backend.empty((batch, heads, length, width), array.dtype)

    def _empty_numbers(self):
        """One number per query and head, not initialized."""
        return backend_of(self.q).empty(self.q.shape[:3], wide(self.q.dtype))

    def _in_shape(self, array):
        if array.ndim == len(self.leading) + 2:
            return array
        if len(self.leading) == 1:
            return array[0]
        return array.reshape(self.leading + array.shape[-2:])


register_kernel("attention", "cuda", forward, backward)
