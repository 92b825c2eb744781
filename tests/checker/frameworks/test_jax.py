"""JAX functions and ``custom_vjp``; skipped without JAX."""

import numpy as np
import pytest

from tinyattn.checker import GradcheckError, gradcheck, gradient_report
from tinyattn.checker.check import problem_of

jax = pytest.importorskip("jax")
jnp = jax.numpy


def attention(q, k, v):
    """softmax(q k^T / sqrt(d)) v, of three matrices."""
    return jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5, axis=-1) @ v


def forward(q, k, v):
    weights = jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5, axis=-1)
    return weights @ v, (q, k, v, weights)


def backward(residuals, g):
    q, k, v, weights = residuals
    dweights = g @ v.T
    ds = weights * (dweights - (weights * dweights).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return ds @ k, ds.T @ q, weights.T @ g


def wrong_backward(residuals, g):
    dq, dk, dv = backward(residuals, g)
    return dq, dk.at[1, 2].multiply(-1), dv


right_attention = jax.custom_vjp(attention)
right_attention.defvjp(forward, backward)
wrong_attention = jax.custom_vjp(attention)
wrong_attention.defvjp(forward, wrong_backward)
RANDOM = np.random.default_rng(0)
QKV = [RANDOM.standard_normal((4, 3)) for _ in range(3)]


def test_a_right_attention_passes():
    assert gradcheck(right_attention, QKV)


def test_a_wrong_attention_is_found_with_its_element_and_its_function():
    def layer(q, k, v):
        return jnp.tanh(jax.jit(wrong_attention)(2 * q, k, right_attention(v, v, v)))

    with jax.enable_x64(True), pytest.raises(GradcheckError) as caught:
        gradcheck(layer, [jnp.array(array) for array in QKV])
    error = caught.value
    assert (error.op, error.argument, error.index) == ("attention", "inputs[1]", (1, 2))
    assert error.analytic == pytest.approx(-error.numeric, rel=1e-6)


def test_64_bit_types_are_enabled_for_the_check_only():
    assert not jax.config.jax_enable_x64
    assert gradcheck(right_attention, QKV)
    assert gradcheck(jax.jit(attention), QKV)
    assert gradcheck(lambda x: jnp.sin(x), jnp.ones(3), upcast=True)
    assert not jax.config.jax_enable_x64


def test_pytrees_and_integers_are_taken_as_inputs():
    def embed(parameters, ids):
        return {"rows": parameters["table"][ids] * parameters["scale"], "count": ids.size}

    parameters = {"table": jnp.ones((4, 2)), "scale": jnp.ones(2)}
    report = gradient_report(embed, (parameters, jnp.array([0, 3, 0])), upcast=True)
    assert report.passed
    assert [a.name for a in report.arguments] == ["inputs[0]['scale']", "inputs[0]['table']"]


def test_params_and_complex_inputs_are_refused():
    with pytest.raises(TypeError, match="expected its parameters in inputs"):
        problem_of(right_attention, QKV, params={"w": QKV[0]})
    with pytest.raises(TypeError, match="complex"):
        problem_of(jax.jit(jnp.abs), jnp.ones(2, "complex64"))


def test_the_call_of_custom_vjp_is_restored():
    call = jax.custom_vjp.__call__
    gradient_report(wrong_attention, QKV, find_fault=True)
    assert jax.custom_vjp.__call__ is call
