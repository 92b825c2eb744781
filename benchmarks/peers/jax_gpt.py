"""GPT in JAX: model and training step as one compiled function, with its own AdamW."""

import jax
import jax.numpy as jnp
import numpy as np


def make_parameters(layers, dim, block_size, vocabulary_size=65):
    """All parameters as a dict of arrays."""
    random = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(0.02 * random.standard_normal(shape), jnp.float32)

    parameters = {"embedding": normal(vocabulary_size, dim), "positions": normal(block_size, dim)}
    widths = {"qkv": (dim, 3 * dim), "project": (dim, dim), "expand": (dim, 4 * dim)}
    widths["contract"] = (4 * dim, dim)
    for layer in range(layers):
        for name, shape in widths.items():
            parameters[f"{name}{layer}"] = normal(*shape)
            parameters[f"{name}_bias{layer}"] = jnp.zeros(shape[1])
        for name in ("norm1", "norm2"):
            parameters[f"{name}{layer}"] = jnp.ones(dim)
            parameters[f"{name}_bias{layer}"] = jnp.zeros(dim)
    parameters["norm"], parameters["norm_bias"] = jnp.ones(dim), jnp.zeros(dim)
    return parameters


def _norm(x, weight, bias):
    centered = x - x.mean(-1, keepdims=True)
    return (
        centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * weight
        + bias
    )


def loss_of(parameters, ids, targets, layers, heads):
    p = parameters
    batch, length = ids.shape
    x = p["embedding"][ids] + p["positions"][:length]
    dim = x.shape[-1]
    for i in range(layers):
        u = _norm(x, p[f"norm1{i}"], p[f"norm1_bias{i}"])
        qkv = u @ p[f"qkv{i}"] + p[f"qkv_bias{i}"]
        q, k, v = (a.reshape(batch, length, heads, -1) for a in jnp.split(qkv, 3, axis=-1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, length, dim)
        x = x + y @ p[f"project{i}"] + p[f"project_bias{i}"]
        u = _norm(x, p[f"norm2{i}"], p[f"norm2_bias{i}"])
        u = jax.nn.gelu(u @ p[f"expand{i}"] + p[f"expand_bias{i}"], approximate=True)
        x = x + u @ p[f"contract{i}"] + p[f"contract_bias{i}"]
    logits = _norm(x, p["norm"], p["norm_bias"]) @ p["embedding"].T
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()


def make_step(layers, heads):
    """The compiled step: (parameters, moments, number, ids, targets) -> new parameters and moments, and the loss."""

    def step(parameters, moments, number, ids, targets):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, ids, targets, layers, heads)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients.values()))
        factor = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
        new_parameters, new_moments = {}, {}
        for name, value in parameters.items():
            g = gradients[name] * factor
            m, v = moments[name]
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            update = (m / (1 - 0.9**number)) / (jnp.sqrt(v / (1 - 0.99**number)) + 1e-8)
            decay = 0.1 if value.ndim == 2 else 0.0
            new_parameters[name] = value * (1 - 1e-3 * decay) - 1e-3 * update
            new_moments[name] = (m, v)
        return new_parameters, new_moments, loss

    return jax.jit(step, donate_argnums=(0, 1))
