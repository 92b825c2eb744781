"""GPT in PyTorch: pre-norm, learned positions, GELU by tanh, tied head; SDPA and fused AdamW."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.expand, self.contract = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, cache=None):
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)
            for part in self.query_key_value(self.norm1(x)).split(dim, dim=2)
        )
        causal = True
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
                causal = False
            cache[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal and length > 1)
        x = x + self.project(y.transpose(1, 2).contiguous().view(batch, length, dim))
        return x + self.contract(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, dim, block_size, vocabulary_size=65):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, dim)
        self.positions = nn.Embedding(block_size, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                into_residual = name.endswith(("project.weight", "contract.weight"))
                nn.init.normal_(parameter, 0, 0.02 / ((2 * layers) ** 0.5 if into_residual else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, caches=None, start=0):
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = self.embedding(ids) + self.positions(positions)
        for number, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[number])
        return F.linear(self.norm(x), self.embedding.weight)

    def loss(self, ids, targets):
        logits = self(ids)
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def optimizer_of(model, lr=1e-3):
    """Fused AdamW as in nanoGPT: weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99), fused=True)


def training_step(model, optimizer, forward=None):
    """A function ``(ids, targets) -> loss`` that does one step."""
    forward = forward or model.loss

    def step(ids, targets):
        loss = forward(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step
