"""Split a model's parameters between Muon and AdamW."""

from ..nn import Linear


def split_for_muon(model):
    """Split parameters into the matrices inside a model's blocks, for Muon, and all others, for AdamW.

    Args:
        model: a module with its blocks in the attribute ``blocks``.

    Returns:
        ``(groups, rest)``: parameter groups for ``Muon(groups)``, one for each value of ``Linear.parts``, and the other
        named parameters, for ``weight_decay_groups(rest, ...)``.

    >>> import tinyattn as ta
    >>> from tinyattn.models import GPT, GPTConfig
    >>> groups, rest = split_for_muon(GPT(GPTConfig(layers=1, previous_embedding=False)))
    >>> [len(group["params"]) for group in groups], [name for name, _ in rest]
    ([6], ['embedding.weight', 'blocks.0.norm1.weight', 'blocks.0.norm2.weight', 'norm.weight'])
    """
    matrices = {}  # parts -> named parameters
    taken = set()
    for name, module in model.named_modules():
        if isinstance(module, Linear) and name.startswith("blocks."):
            matrices.setdefault(module.parts, []).append((f"{name}.weight", module.weight))
            taken.add(id(module.weight))
    groups = [{"params": named, "parts": parts} for parts, named in matrices.items()]
    rest = [pair for pair in model.named_parameters() if id(pair[1]) not in taken]
    return groups, rest
