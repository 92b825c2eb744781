"""Mini-batches of parallel arrays, such as inputs and targets."""

import operator

import numpy as np

from ..autograd import Tensor, tensor
from ..backend import default_random, host_array


class ArrayBatches:
    """Iterate over mini-batches of several arrays: each batch has the same rows of all arrays.

    Each iteration is an epoch, which visits all rows once, in a new random order.

    Args:
        arrays: tensors, arrays or nested sequences of numbers, with first axes of the same length.
        batch_size: rows in a batch; the last batch of an epoch may be smaller.
        shuffle: whether to shuffle the rows in each epoch.
        drop_last: whether to drop a smaller last batch.
        device: the device of the batches; by default that of a tensor, for other arrays the default device.
        random: the random stream of the shuffles (``tinyattn.backend.Random``); by default that of ``manual_seed``.

    Yields:
        A tuple with a tensor for each array; for a single array the tensor itself.

    Raises:
        ValueError: for arrays of different lengths or without axes, and a batch size below 1.
        TypeError: for no arrays, and for a batch size that is not an integer.

    >>> import tinyattn as ta
    >>> batches = ta.data.ArrayBatches(np.eye(5), np.arange(5), batch_size=2)
    >>> len(batches)
    3
    >>> for x, y in batches:
    ...     assert (x.argmax(axis=1) == y).all()
    """

    def __init__(
        self, *arrays, batch_size, shuffle=True, drop_last=False, device=None, random=None
    ):
        if not arrays:
            raise TypeError("ArrayBatches got no arrays: write ArrayBatches(x, y, batch_size=32)")
        self.arrays = [a if isinstance(a, Tensor) else host_array(a) for a in arrays]
        if any(array.ndim == 0 for array in self.arrays):
            raise ValueError(
                "ArrayBatches got an array without axes: expected rows on the first axis"
            )
        lengths = [len(array) for array in self.arrays]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"the arrays have {', '.join(map(str, lengths))} rows: expected the same number in all"
            )
        try:
            self.batch_size = operator.index(batch_size)
        except TypeError:
            raise TypeError(f"batch_size must be a whole number, got {batch_size!r}") from None
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.device = device
        self.random = random

    def __len__(self):
        """The number of batches in an epoch."""
        whole, rest = divmod(len(self.arrays[0]), self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __iter__(self):
        count = len(self.arrays[0])
        random = default_random() if self.random is None else self.random
        order = random.permutation(count) if self.shuffle else np.arange(count)
        for number in range(len(self)):
            rows = order[number * self.batch_size : (number + 1) * self.batch_size]
            batch = tuple(self._rows(array, rows) for array in self.arrays)
            yield batch if len(batch) > 1 else batch[0]

    def _rows(self, array, rows):
        chosen = array[rows]
        if not isinstance(chosen, Tensor):
            return tensor(chosen, device=self.device)
        return chosen if self.device is None else chosen.to(self.device)
