"""Ten training steps of a GPT, here and in PyTorch, from the same weights: losses, gradients and parameters."""

import math

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import models, optim

torch = pytest.importorskip("torch")
functional = torch.nn.functional
torch.set_num_threads(1)  # its threads cost these small products more than they give

STEPS, BATCH, LENGTH, VOCABULARY = 10, 3, 9, 11
OPTIONS = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.1}

CONFIGS = {
    "GPT-2 with the exact gelu": {"activation": "gelu"},
    "GPT-2, own output layer": {"tie_head": False},
    "rotary, q/k norm": {
        "positions": "rotary",
        "qk_norm": True,
        "bias": False,
        "activation": "relu_squared",
        "norm_kind": "rms_norm",
    },
    "post-norm, sinusoidal": {"positions": "sinusoidal", "norm": "post", "activation": "silu"},
}


class TorchGPT:
    """The same model written down in PyTorch's functions, its parameters by the names they have here."""

    def __init__(self, config, state):
        self.config = config
        self.parameters = {
            name: torch.tensor(array, requires_grad=True) for name, array in state.items()
        }

    def linear(self, x, name):
        return x @ self.parameters[f"{name}.weight"] + self.parameters.get(f"{name}.bias", 0)

    def norm(self, x, name):
        weight, bias = (self.parameters.get(f"{name}.{part}") for part in ("weight", "bias"))
        if self.config.norm_kind == "rms_norm":
            return functional.rms_norm(x, weight.shape, weight, eps=1e-5)
        return functional.layer_norm(x, weight.shape, weight, bias)

    def rotate(self, x):
        half = x.shape[-1] // 2
        frequency = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequency
        pairs = torch.complex(x[..., :half], x[..., half:])
        turned = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([turned.real, turned.imag], dim=-1)

    def attention(self, x, name):
        heads = self.config.heads

        def split(y):
            return y.unflatten(-1, (heads, -1)).transpose(-2, -3)

        q, k, v = (split(self.linear(x, f"{name}.{part}")) for part in ("query", "key", "value"))
        if self.config.qk_norm:
            q, k = (functional.rms_norm(y, y.shape[-1:], eps=1e-6) for y in (q, k))
        if self.config.positions == "rotary":
            q, k = self.rotate(q), self.rotate(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(y.transpose(-2, -3).flatten(-2), f"{name}.project")

    def feed_forward(self, x, name):
        activation = {
            "gelu": functional.gelu,
            "gelu_tanh": lambda y: functional.gelu(y, approximate="tanh"),
            "relu_squared": lambda y: functional.relu(y) ** 2,
            "silu": functional.silu,
        }[self.config.activation]
        return self.linear(activation(self.linear(x, f"{name}.expand")), f"{name}.contract")

    def __call__(self, ids):
        x = self.parameters["embedding.weight"][ids]
        if self.config.positions == "learned":
            x = x + self.parameters["positions.weight"][: ids.shape[1]]
        if self.config.positions == "sinusoidal":
            dim = self.config.dim
            wavelength = 10000.0 ** (torch.arange(0, dim, 2, dtype=x.dtype) / dim)
            angle = torch.arange(ids.shape[1], dtype=x.dtype)[:, None] / wavelength
            x = x * math.sqrt(dim) + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
        for layer in range(self.config.layers):
            block = f"blocks.{layer}"
            if self.config.norm == "pre":
                x = x + self.attention(self.norm(x, f"{block}.norm1"), f"{block}.attention")
                x = x + self.feed_forward(self.norm(x, f"{block}.norm2"), f"{block}.feed_forward")
            else:
                x = self.norm(x + self.attention(x, f"{block}.attention"), f"{block}.norm1")
                x = self.norm(x + self.feed_forward(x, f"{block}.feed_forward"), f"{block}.norm2")
        if self.config.norm == "pre":
            x = self.norm(x, "norm")
        if self.config.tie_head:
            return x @ self.parameters["embedding.weight"].T
        return self.linear(x, "head")


def build(config, device, dtype="float64"):
    ta.manual_seed(7)
    model = models.GPT(config).to(dtype).to(device)
    generator = np.random.default_rng(7)
    for parameter in model.parameters():  # no bias at 0 and no norm's weight at 1
        noise = generator.normal(0, 0.05, parameter.shape).astype(dtype)
        parameter.data = parameter._data + ta.tensor(noise, device=device)._data
    return model


def batches():
    ids = np.random.default_rng(8).integers(0, VOCABULARY, (STEPS, BATCH, LENGTH + 1))
    return [(batch[:, :-1], batch[:, 1:]) for batch in ids]


@pytest.mark.parametrize("name", CONFIGS)
def test_ten_steps_equal_pytorchs_to_1e_10(name, device):
    config = models.GPTConfig.gpt2(
        vocabulary_size=VOCABULARY, block_size=LENGTH, layers=2, heads=2, dim=12, **CONFIGS[name]
    )
    model = build(config, device)
    other = TorchGPT(config, model.state_dict())
    groups = optim.weight_decay_groups(model.named_parameters(), OPTIONS["weight_decay"])
    ours = optim.AdamW(groups, **OPTIONS)
    theirs = torch.optim.AdamW(
        [
            {
                "params": [other.parameters[name] for name, _ in group["params"]],
                "weight_decay": group["weight_decay"],
            }
            for group in groups
        ],
        **OPTIONS,
    )
    for inputs, targets in batches():
        model.zero_grad()
        loss = model.loss(ta.tensor(inputs, device=device), ta.tensor(targets, device=device))
        loss.backward()
        theirs.zero_grad()
        expected = functional.cross_entropy(
            other(torch.tensor(inputs)).flatten(0, 1), torch.tensor(targets).flatten()
        )
        expected.backward()
        assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
        for label, parameter in model.named_parameters():
            gradient = other.parameters[label].grad.numpy()
            assert np.abs(gradient).max() > 1e-6 or label.endswith("key.bias")
            np.testing.assert_allclose(
                parameter.grad.numpy(), gradient, rtol=0, atol=1e-10, err_msg=label
            )
        _forget_rounding(model, other)
        norm = optim.clip_grad_norm(model.parameters(), 1.0)
        expected_norm = torch.nn.utils.clip_grad_norm_(list(other.parameters.values()), 1.0)
        assert norm == pytest.approx(expected_norm.item(), abs=1e-10)
        ours.step()
        theirs.step()
        for label, parameter in model.named_parameters():
            np.testing.assert_allclose(
                parameter.numpy(),
                other.parameters[label].detach().numpy(),
                rtol=0,
                atol=1e-10,
                err_msg=label,
            )


def _forget_rounding(model, other):
    """Set the gradient of key biases to the 0 that it is: softmax does not see them, and AdamW would divide rounding
    errors by their own size.
    """
    for label, parameter in model.named_parameters():
        if label.endswith("key.bias"):
            parameter.grad = parameter.grad * 0.0
            other.parameters[label].grad.zero_()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_float32_step_stays_float32_and_near_the_float64_one(name, device):
    config = models.GPTConfig.gpt2(
        vocabulary_size=VOCABULARY, block_size=LENGTH, layers=2, heads=2, dim=12, **CONFIGS[name]
    )
    gradients = {}
    for dtype in ("float32", "float64"):
        model = build(config, device, dtype)
        inputs, targets = batches()[0]
        loss = model.loss(ta.tensor(inputs, device=device), ta.tensor(targets, device=device))
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 1.0)
        optim.AdamW(model.parameters(), **OPTIONS).step()
        dtypes = {p.dtype for p in model.parameters()} | {p.grad.dtype for p in model.parameters()}
        assert dtypes | {loss.dtype} == {np.dtype(dtype)}
        gradients[dtype] = [parameter.grad.numpy() for parameter in model.parameters()]
    for single, double in zip(*gradients.values()):
        np.testing.assert_allclose(single, double, atol=1e-5)
