"""PyTorch functions, autograd Functions and modules; skipped without PyTorch."""

import numpy as np
import pytest

from tinyattn.checker import GradcheckError, gradcheck, gradient_report
from tinyattn.checker.check import problem_of

torch = pytest.importorskip("torch")


class Attention(torch.autograd.Function):
    """softmax(q k^T / sqrt(d)) v."""

    @staticmethod
    def forward(ctx, q, k, v):
        weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, weights = ctx.saved_tensors
        dweights = g @ v.mT
        ds = weights * (dweights - (weights * dweights).sum(-1, keepdim=True))
        ds = ds * q.shape[-1] ** -0.5
        return ds @ k, ds.mT @ q, weights.mT @ g


class WrongAttention(Attention):
    """The gradient of the first key is that of its negative."""

    @staticmethod
    def backward(ctx, g):
        dq, dk, dv = Attention.backward(ctx, g)
        dk = dk.clone()
        dk[..., 0, 2] *= -1
        return dq, dk, dv


def normal(*shape, dtype=torch.float64):
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    return torch.tensor(values, dtype=dtype)


QKV = (normal(2, 4, 3), normal(2, 4, 3) + 0.5, normal(2, 4, 3) - 0.25)


def test_a_right_attention_passes():
    assert gradcheck(Attention, QKV)
    assert gradcheck(Attention.apply, QKV)


def test_a_wrong_attention_is_found_with_its_element_and_its_autograd_node():
    def layer(q, k, v):
        return torch.tanh(WrongAttention.apply(q * 2, k, v))

    with pytest.raises(GradcheckError) as caught:
        gradcheck(layer, QKV)
    error = caught.value
    assert (error.op, error.argument) == ("WrongAttentionBackward", "inputs[1]")
    assert error.index[1:] == (0, 2)
    assert error.analytic == pytest.approx(-error.numeric, rel=1e-6)
    assert error.report.operations == ("MulBackward0", "WrongAttentionBackward", "TanhBackward0")


def test_a_detached_result_is_distinguished_from_a_wrong_operation():
    with pytest.raises(GradcheckError, match=r"something leaves the graph: detach\(\)"):
        gradcheck(lambda x: x.sin() + x.detach(), normal(3))


def test_a_wrong_operation_of_the_library_is_found_too(monkeypatch):
    def gradients(x):
        return torch.nn.functional.softplus(torch.sin(x))

    report = gradient_report(gradients, normal(3), find_fault=True)
    assert report.passed and report.operations == ("SinBackward0", "SoftplusBackward0")


def test_the_parameters_of_a_module_are_checked_and_left_as_they_are():
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
    )
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    report = gradient_report(module, normal(5, 3), upcast=True)
    assert report.passed
    names = [argument.name for argument in report.arguments]
    assert names == ["inputs", *(name for name, _ in module.named_parameters())]
    for name, tensor in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert tensor.dtype == before[name].dtype and torch.equal(tensor, before[name]), name


def test_parameters_can_be_given_as_a_module_or_by_name():
    module = torch.nn.Linear(3, 2).double()
    x = normal(4, 3)
    for params, names in [
        (module, ["weight", "bias"]),
        ({"w": module.weight}, ["w"]),
        ([module.bias], ["params[0]"]),
        (list(module.named_parameters()), ["weight", "bias"]),
    ]:
        problem = problem_of(lambda: module(x), (), params)
        assert [argument.name for argument in problem.arguments] == names
        assert gradcheck(lambda: module(x), (), params=params)


def test_only_inputs_that_require_gradients_are_checked_if_any_does():
    x, y = normal(3).requires_grad_(), normal(3)
    problem = problem_of(torch.mul, (x, y))
    assert [argument.name for argument in problem.arguments] == ["inputs[0]"]


def test_containers_integers_and_arrays_are_taken_as_inputs():
    def pick(batch, ids):
        return {"picked": batch["x"][ids], "count": len(ids)}

    assert gradcheck(pick, ({"x": normal(4, 2)}, torch.tensor([0, 2, 0])))
    assert gradcheck(Attention, [tensor.numpy() for tensor in QKV])


def test_a_wrong_dtype_and_a_changed_cotangent_are_findings():
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            g.mul_(2)
            return g.float()

    report = gradient_report(Careless, normal(3))
    assert {finding.kind for finding in report.findings} >= {
        "changes its cotangent",
        "wrong dtype",
    }
    assert report.verdict == "wrong"


def test_mixed_dtypes_are_no_finding():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x, factor)
            return x * factor.to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            x, factor = ctx.saved_tensors
            return g * factor.to(g.dtype), (g * x).sum().to(factor.dtype)

    factor = torch.tensor(2.0, requires_grad=True)
    report = gradient_report(lambda x: Scaled.apply(x, factor), normal(3))
    assert report.passed and not report.findings


def test_static_methods_are_restored():
    forward, backward = Attention.__dict__["forward"], Attention.__dict__["backward"]
    gradient_report(WrongAttention, QKV, mode="directional", find_fault=True)
    assert Attention.__dict__["forward"] is forward
    assert Attention.__dict__["backward"] is backward
    assert "forward" not in WrongAttention.__dict__


def test_strided_inputs_and_poisoned_memory_are_what_they_say():
    problem = problem_of(torch.sin, normal(2, 3))
    leaves, _ = problem.run(strided=True)
    assert not leaves[0].is_contiguous()
    (gradient,) = problem.gradients([np.ones((2, 3))], strided=True)
    np.testing.assert_allclose(gradient, np.cos(problem.arguments[0].start))
    with problem.undefined_memory():
        assert torch.empty(3).isnan().all() and np.isnan(np.empty(3)).all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_reproducing_call_shows_tensors():
    problem = gradient_report(torch.sin, torch.tensor([0.5, 1.0], dtype=torch.float64))
    assert "ta.gradcheck(sin, torch.tensor([0.5, 1.0], dtype=torch.float64)" in problem.call
