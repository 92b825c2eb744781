"""Training steps in TF32 and float16 with simulated kernels stay within an error budget relative to float64."""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.test_training import IDS, one_step, prepared
from tests.kernels.cuda.tools import need_compiler
from tinyattn.backend import get_backend
from tinyattn.data import InputError
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.train.build import build_model
from tinyattn.train.config import make_config
from tinyattn.train.precision import LossScale, check_precision

need_compiler()

# The largest allowed error of the loss and of each gradient, relative to the norm in float64, and the smallest
# plausible one: a smaller error would mean that the precision is not used.
BUDGET = {"float32": (1e-6, 0), "tf32": (3e-3, 1e-5), "float16": (1e-2, 1e-5)}
OPTIONS = {"preset": "nanogpt-gpu", "dropout": 0.0}


def loss_and_gradients(device, **options):
    with simulated_kernels():
        model, optimizers, step = prepared(device, **OPTIONS, **options)
        for name, parameter in model.named_parameters():
            random = np.random.default_rng(len(name))  # the same numbers in all precisions
            drawn = (0.1 * random.standard_normal(parameter.shape)).astype("float16")
            parameter._data[...] = parameter._data * 0 + get_backend(device).asarray(
                drawn.astype(parameter.dtype)
            )
        loss = float(step(IDS[:, :-1], IDS[:, 1:], key=1))
        scale = 1 if optimizers.loss_scale is None else optimizers.loss_scale.value
        gradients = {n: p.grad.numpy() / scale for n, p in model.named_parameters()}
    return loss, gradients


@pytest.mark.parametrize("precision", BUDGET)
def test_a_step_stays_within_its_error_budget(precision):
    largest, least = BUDGET[precision]
    loss, gradients = loss_and_gradients("strict", precision=precision)
    expected, expected_gradients = loss_and_gradients("cpu", dtype="float64")
    assert abs(loss - expected) < largest * expected
    errors = {
        name: np.linalg.norm(gradients[name] - g) / np.linalg.norm(g)
        for name, g in expected_gradients.items()
    }
    assert least <= max(errors.values()) < largest, errors


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_training_follows_float64(precision):
    losses = {}
    for device, options in (("strict", {"precision": precision}), ("cpu", {"dtype": "float64"})):
        with simulated_kernels():
            _, optimizers, step = prepared(device, optimizer="adamw", **options)
            losses[device] = [float(one_step(optimizers, step, i)[0]) for i in range(6)]
    np.testing.assert_allclose(losses["strict"], losses["cpu"], rtol=5e-3)
    assert losses["cpu"][-1] < losses["cpu"][0] - 0.1


def test_float16_stores_parameters_in_16_bits_and_master_weights_in_32():
    with simulated_kernels():
        model, optimizers, step = prepared("strict", precision="float16")
        assert all(parameter.dtype == "float16" for parameter in model.parameters())
        one_step(optimizers, step)
        arrays, settings = optimizers.state()
    masters = {name: array for name, array in arrays.items() if name.endswith(".master")}
    assert len(masters) == len(model.parameters())
    for name, parameter in model.named_parameters():
        (master,) = [a for key, a in masters.items() if key.endswith(f".{name}.master")]
        assert master.dtype == "float32"
        np.testing.assert_array_equal(master.astype("float16"), parameter.numpy())
        assert (master != parameter.numpy()).any()
    assert settings["loss_scale"] == [2.0**15, 1]


def test_an_overflow_skips_the_update_and_halves_the_scale():
    with simulated_kernels():
        model, optimizers, step = prepared("strict", precision="float16")
        optimizers.loss_scale.value = 2.0**24
        optimizers.loss_scale.steps = 5
        optimizers.members["adamw"].param_groups[0]["params"][0]._data[...] = 60.0
        before = model.state_dict()
        _, norm = one_step(optimizers, step)
        assert not np.isfinite(norm) and optimizers.skips
        assert optimizers.loss_scale.state() == [2.0**23, 0]
        for name, array in before.items():
            np.testing.assert_array_equal(model.state_dict()[name], array)


def test_a_loss_scale_below_1_is_exhausted():
    scale = LossScale(2.0)
    scale.update(False)
    assert not scale.is_exhausted
    scale.update(False)
    assert scale.is_exhausted


def test_a_parameter_that_is_set_by_the_user_replaces_its_master_weight():
    with simulated_kernels():
        p = ta.tensor(np.float16([1.0, 2.0, 3.0]), requires_grad=True, device="strict")
        optimizer = ta.optim.AdamW([p], lr=1e-4, weight_decay=0.0)
        for _ in range(3):  # each too small for float16 at 1
            p.grad = ta.tensor([1.0, 1.0, 1.0], device="strict")
            optimizer.step()
        assert p.tolist()[0] == np.float16(1 - 3e-4)
        p.data[1] = 5.0
        optimizer.step()
        assert p.tolist()[1] == pytest.approx(5.0, abs=5e-3)


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_the_cpu_refuses_a_low_precision_by_name(precision):
    with pytest.raises(InputError, match=rf"--precision {precision} is not possible.* cpu.*NVIDIA"):
        check_precision(make_config(precision=precision, device="cpu").run)
    with pytest.raises(InputError, match="--dtype float64"):
        check_precision(make_config(precision=precision, device="cpu", dtype="float64").run)


def test_a_model_trained_in_float16_is_loaded_as_float32_on_the_cpu():
    config = make_config({**OPTIONS, "layers": 1, "heads": 1, "dim": 8}, precision="float16")
    with ta.device("strict"):
        half = build_model(config, 5)
    assert half.dtype == "float16"
    model = build_model(config, 5)
    model.load_state_dict(half.state_dict())
    assert model.dtype == "float32"
