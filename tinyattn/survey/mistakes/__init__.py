"""Mistakes that people make in backward passes, written once: each as a change to the source of our rule.

``gradcheck --break`` shows which checks catch them (``mutations.py``), and the course names them in a learner's answer.
One module for each module of ``ops`` and for attention. The name of a mistake completes "a rule whose gradient ...".
"""

from . import (
    activations,
    arithmetic,
    attention,
    embedding,
    linear_algebra,
    losses,
    normalization,
    reductions,
    softmax,
)

# primitive -> function -> name of the mistake -> (before, after, why that is a mistake)
CHANGES = {
    **arithmetic.CHANGES,
    **reductions.CHANGES,
    **activations.CHANGES,
    **softmax.CHANGES,
    **normalization.CHANGES,
    **losses.CHANGES,
    **attention.CHANGES,
    **linear_algebra.CHANGES,
    **embedding.CHANGES,
}
