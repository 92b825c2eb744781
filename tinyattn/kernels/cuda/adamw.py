"""AdamW over flat storage: all parameters of a group in one launch.

Trade-offs: one pass over memory, where each operation of the update by itself makes one.
"""

import math

from ..updates import register_update
from .launch import blocks_for, launch

_BLOCK = 256


def adamw_update(arrays, block, *, step, lr, betas, eps, weight_decay):
    """As ``adamw_update`` of ``optim/adamw.py``."""
    values, gradient, first_moment, second_moment = (array[block] for array in arrays)
    beta1, beta2 = map(float, betas)
    root = math.sqrt(1 - beta2**step)
    numbers = 1 - lr * weight_decay, beta1, beta2, eps * root, lr * root / (1 - beta1**step)
    launch(
        "adamw.cu",
        "adamw_update",
        (values.dtype,),
        blocks_for(values.size, _BLOCK),
        _BLOCK,
        values,
        gradient,
        first_moment,
        second_moment,
        values.size,
        *map(float, numbers),
    )


register_update("adamw_update", "cuda", adamw_update)
