"""Serial execution in the calling thread."""

from .blas_limit import blas_limit
from .executor import Executor


class SerialExecutor(Executor):
    """Calls functions in the calling thread.

    >>> import tinyattn as ta
    >>> SerialExecutor(ta.nn.Linear(2, 3)).map(lambda model, item: item + 1, [1, 2])
    [2, 3]
    """

    def __init__(self, model):
        super().__init__(model, workers=1)

    def run(self, function, items, receive):
        with blas_limit(self.blas_threads):
            for item in items:
                receive(function(self.model, item))

    def for_each(self, function, items):
        with blas_limit(self.blas_threads):
            for item in items:
                function(item)
