"""Layers and transformer blocks against PyTorch: outputs and derivatives of first and second order, all parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import models, nn

torch = pytest.importorskip("torch")
SIZES = {
    "batch": st.integers(1, 3),
    "length": st.integers(1, 5),
    "heads": st.integers(1, 3),
    "head_dim": st.integers(1, 4),
    "seed": st.integers(0, 99),
}
FEW = settings(max_examples=8, derandomize=True, deadline=None, database=None)


def assert_module_agrees(module, theirs, x, seed):
    """Hold ``module`` against ``theirs(x, parameters by name)`` in ``x`` and in every parameter."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tests.parity.oracle import assert_agreement

    names = [name for name, _ in module.named_parameters()]
    random = np.random.default_rng(seed)
    arrays = [0.7 * random.standard_normal(p.shape) for _, p in module.named_parameters()]

    def ours(x, *tensors):
        for name, tensor in zip(names, tensors, strict=True):
            *path, attribute = name.split(".")
            owner = module
            for step in path:
                owner = getattr(owner, step)
            vars(owner)[attribute] = tensor  # past the module, which takes parameters only
        return module(x)

    def oracle_function(x, *tensors):
        with sdpa_kernel(SDPBackend.MATH):  # the only one that PyTorch differentiates twice
            return theirs(x, dict(zip(names, tensors, strict=True)))

    assert_agreement(ours, oracle_function, x, *arrays, rtol=1e-7, atol=1e-9, seed=seed)


def attention_state(parameters, prefix=""):
    """Our parameters under PyTorch's names: (out, in) instead of (in, out), and q, k, v in one."""
    parts = [f"{prefix}{part}" for part in ("query", "key", "value")]
    return {
        "in_proj_weight": torch.cat([parameters[f"{part}.weight"].T for part in parts]),
        "in_proj_bias": torch.cat([parameters[f"{part}.bias"] for part in parts]),
        "out_proj.weight": parameters[f"{prefix}project.weight"].T,
        "out_proj.bias": parameters[f"{prefix}project.bias"],
    }


def hidden(length, causal):
    """PyTorch's mask, where True hides a key."""
    return ~torch.ones(length, length, dtype=torch.bool).tril() if causal else None


@FEW
@given(causal=st.booleans(), **SIZES)
def test_multi_head_attention(batch, length, heads, head_dim, causal, seed):
    dim = heads * head_dim
    reference = torch.nn.MultiheadAttention(dim, heads, batch_first=True).double()

    def theirs(x, parameters):
        more = {"attn_mask": hidden(length, causal), "need_weights": False}
        state = attention_state(parameters)
        return torch.func.functional_call(reference, state, (x, x, x), more)[0]

    x = np.random.default_rng(seed).standard_normal((batch, length, dim))
    assert_module_agrees(nn.MultiHeadAttention(dim, heads, causal=causal), theirs, x, seed)


@FEW
@given(norm=st.sampled_from(["pre", "post"]), causal=st.booleans(), **SIZES)
def test_transformer_block(batch, length, heads, head_dim, norm, causal, seed):
    dim = heads * head_dim + heads  # layer norm over one channel is constant, in both libraries
    reference = torch.nn.TransformerEncoderLayer(
        dim, heads, 2 * dim, 0.0, "gelu", batch_first=True, norm_first=norm == "pre"
    ).double()

    def theirs(x, parameters):
        state = {
            f"self_attn.{name}": value
            for name, value in attention_state(parameters, "attention.").items()
        }
        for own, name in (("feed_forward.expand", "linear1"), ("feed_forward.contract", "linear2")):
            state[f"{name}.weight"] = parameters[f"{own}.weight"].T
            state[f"{name}.bias"] = parameters[f"{own}.bias"]
        for name in ("norm1", "norm2"):
            state[f"{name}.weight"] = parameters[f"{name}.weight"]
            state[f"{name}.bias"] = parameters[f"{name}.bias"]
        more = {"src_mask": hidden(length, causal)}
        return torch.func.functional_call(reference, state, (x,), more)

    x = np.random.default_rng(seed).standard_normal((batch, length, dim))
    module = nn.TransformerBlock(dim, heads, norm=norm, feed_forward_dim=2 * dim, causal=causal)
    assert_module_agrees(module, theirs, x, seed)


@FEW
@given(shape=st.sampled_from([(3,), (2, 3), (0, 3), (2, 1, 3), (1, 3)]), seed=st.integers(0, 99))
def test_linear(shape, seed):
    def theirs(x, parameters):
        return torch.nn.functional.linear(x, parameters["weight"].T, parameters["bias"])

    x = np.random.default_rng(seed).standard_normal(shape)
    assert_module_agrees(nn.Linear(3, 2), theirs, x, seed)


@FEW
@given(shape=st.sampled_from([(4,), (2, 4), (0, 4), (2, 1, 4)]), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_norms(name, shape, seed):
    module = getattr(nn, name)(4)

    def theirs(x, parameters):
        if name == "LayerNorm":
            return torch.nn.functional.layer_norm(x, (4,), parameters["weight"], parameters["bias"])
        return torch.nn.functional.rms_norm(x, (4,), parameters["weight"], module.eps)

    x = np.random.default_rng(seed).standard_normal(shape)
    assert_module_agrees(module, theirs, x, seed)


@FEW
@given(seed=st.integers(0, 99))
def test_feed_forward(seed):
    def theirs(x, parameters):
        inner = x @ parameters["expand.weight"] + parameters["expand.bias"]
        inner = torch.nn.functional.gelu(inner)
        return inner @ parameters["contract.weight"] + parameters["contract.bias"]

    x = np.random.default_rng(seed).standard_normal((2, 3))
    assert_module_agrees(nn.FeedForward(3, 5), theirs, x, seed)


class _WithBigrams(nn.Module):
    """Vectors of pairs, added to ``x``."""

    def __init__(self, ids):
        self.ids = ids
        self.bigrams = nn.BigramEmbedding(4, 3, 20)

    def forward(self, x):
        return x + self.bigrams(self.ids)


@FEW
@given(length=st.integers(1, 6), seed=st.integers(0, 99))
def test_bigram_embedding(length, seed):
    """Against the bilinear form of one-hot vectors: a table (previous, id, dim), contracted with both."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, 4, (2, length))
    one_hot = torch.nn.functional.one_hot(torch.tensor(ids), 5).double()  # 4: no token
    start = torch.nn.functional.one_hot(torch.full((2, 1), 4), 5).double()
    previous = torch.cat([start, one_hot[:, :-1]], dim=1)

    def theirs(x, parameters):
        table = parameters["bigrams.weight"].reshape(5, 4, 3)
        return x + torch.einsum("blp,bli,pid->bld", previous, one_hot[..., :4], table)

    x = random.standard_normal((2, length, 3))
    assert_module_agrees(_WithBigrams(ids), theirs, x, seed)


class _Embedded(nn.Module):
    """The vectors of tokens in a GPT with an embedding of previous tokens, added to ``x``."""

    def __init__(self, ids):
        self.ids = ids
        sizes = {"vocabulary_size": 4, "layers": 1, "heads": 1, "dim": 2}
        model = models.GPT(models.GPTConfig(**sizes, previous_embedding=True))
        model.blocks = nn.ModuleList([])
        model.norm = None
        self.model = model

    def forward(self, x):
        return x + self.model.embed(self.ids)


@FEW
@given(length=st.integers(1, 6), seed=st.integers(0, 99))
def test_previous_embedding(length, seed):
    """Against products of one-hot vectors and both tables."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, 4, (2, length))
    one_hot = torch.nn.functional.one_hot(torch.tensor(ids), 5).double()  # 4: no token
    start = torch.nn.functional.one_hot(torch.full((2, 1), 4), 5).double()
    previous = torch.cat([start, one_hot[:, :-1]], dim=1)

    def theirs(x, parameters):
        own = one_hot[..., :4] @ parameters["model.embedding.weight"]
        return x + own + previous @ parameters["model.previous_embedding.weight"]

    x = random.standard_normal((2, length, 2))
    assert_module_agrees(_Embedded(ids), theirs, x, seed)
