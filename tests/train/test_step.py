"""A sharded step equals the loss and gradients of the whole batch, and is bit-reproducible."""

import threading

import numpy as np
import pytest
import threadpoolctl

import tinyattn as ta
from tinyattn.autograd.modes import current_mode
from tinyattn.train import step as step_module
from tinyattn.train.parallel import SerialExecutor
from tinyattn.train.step import BatchStep


def make_model(dtype="float64", **options):
    ta.manual_seed(0)
    config = ta.models.GPTConfig.gpt2(
        vocabulary_size=11, block_size=8, layers=2, heads=2, dim=16, **options
    )
    return ta.models.GPT(config).to(dtype)


def make_batch(rows=5, seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 11, (rows, 8)), random.integers(0, 11, (rows, 8))


def run(step, batch, key=3):
    """The loss, and copies of the gradients by name."""
    loss = step(*batch, key)
    return float(loss), gradients_of(step.model)


def gradients_of(model):
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


def whole(batch):
    """The same of the whole batch at once, by ``backward``."""
    model = make_model()
    loss = model.loss(*batch)
    loss.backward()
    return loss.item(), gradients_of(model)


def assert_same(one, other, rtol=1e-10):
    np.testing.assert_allclose(one[0], other[0], rtol=1e-12)
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        np.testing.assert_allclose(
            one[1][name], other[1][name], rtol=rtol, atol=1e-13, err_msg=name
        )


both_kinds = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


@both_kinds
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_sharded_step_equals_the_whole_batch(count, processes, executor_of):
    batch = make_batch(5)
    expected = whole(batch)
    assert_same(run(BatchStep(executor_of(make_model(), count, processes)), batch), expected)


@both_kinds
def test_shards_are_weighted_by_their_number_of_targets(processes, executor_of):
    inputs, targets = make_batch(4)
    targets[0] = -100
    targets[1, 2:] = -100
    expected = whole((inputs, targets))
    step = BatchStep(executor_of(make_model(), 4, processes))
    assert_same(run(step, (inputs, targets)), expected)


def test_a_batch_without_targets_that_count_has_gradient_zero(executor_of):
    inputs, targets = make_batch(4)
    loss, gradients = run(
        BatchStep(executor_of(make_model(), 2)), (inputs, np.full_like(targets, -100))
    )
    assert loss == 0
    assert not any(gradient.any() for gradient in gradients.values())


@both_kinds
def test_gradient_accumulation_equals_one_pass(monkeypatch, processes, executor_of):
    batch = make_batch(9)
    expected = whole(batch)
    monkeypatch.setattr(step_module, "MICRO_BATCH_TOKENS", 16)
    assert_same(run(BatchStep(executor_of(make_model(), 2, processes)), batch), expected)


@pytest.mark.parametrize(("device", "pieces"), [("cpu", 5), ("strict", 1)])
def test_gradient_accumulation_is_for_the_cpu_only(device, pieces, monkeypatch):
    monkeypatch.setattr(step_module, "MICRO_BATCH_TOKENS", 16)
    model = make_model().to(device)
    shapes, original = [], model.loss

    def loss(inputs, targets):
        shapes.append(inputs.shape)
        return original(inputs, targets)

    model.loss = loss
    assert_same(run(BatchStep(SerialExecutor(model)), make_batch(9)), whole(make_batch(9)))
    assert len(shapes) == pieces and sum(rows for rows, _ in shapes) == 9


def test_results_are_bit_identical_for_the_same_number_of_workers(executor_of):
    batch = make_batch(6)
    runs = [
        run(BatchStep(executor_of(make_model("float32", dropout=0.2), 3, processes)), batch, key=99)
        for processes in (False, False, True, True)
    ]
    for loss, gradients in runs[1:]:
        assert loss == runs[0][0]
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(gradient, runs[0][1][name])


def test_dropout_is_seeded_by_the_key_and_the_shard(executor_of):
    model = make_model(dropout=0.5)
    row = make_batch(1)
    batch = tuple(np.repeat(array, 2, axis=0) for array in row)
    drawn = []
    original = model.loss

    def loss(inputs, targets):
        result = original(inputs, targets)
        drawn.append(float(result.item()))
        return result

    model.loss = loss
    step = BatchStep(executor_of(model, 2))
    first = step(*batch, key=1)
    again = step(*batch, key=1)
    other = step(*batch, key=2)
    assert first == again != other
    assert len(set(drawn[:2])) == 2  # equal rows, unequal masks


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_a_worker_is_raised_after_all_have_stopped(failing, executor_of):
    model = make_model()
    original = model.loss
    inputs, targets = make_batch(3)
    inputs[:, 0] = [0, 1, 2]

    def loss(inputs, targets):
        if inputs[0, 0] == failing:
            raise ArithmeticError(f"shard {failing}")
        return original(inputs, targets)

    model.loss = loss
    before = threadpoolctl.threadpool_info()
    step = BatchStep(executor_of(model, 3))
    with pytest.raises(ArithmeticError, match=f"shard {failing}"):
        step(inputs, targets, key=0)
    assert threadpoolctl.threadpool_info() == before
    model.loss = original
    assert np.isfinite(step(inputs, targets, key=0))  # and it can go on


def test_a_parameter_without_gradient_in_the_first_shard_gets_one_from_the_others(executor_of):
    """And one that stays when the workers go on."""

    class Two(ta.nn.Module):
        def __init__(self):
            self.weights = ta.nn.ModuleList([ta.nn.Linear(1, 1), ta.nn.Linear(1, 1)])

        def loss(self, inputs, targets):
            return self.weights[int(inputs[0, 0])](ta.tensor([[float(inputs[0, 1])]])).mean()

    model = Two()
    step = BatchStep(executor_of(model, 2, True))
    inputs = np.array([[0, 3], [1, 5]])
    step(inputs, inputs, key=0)
    held = [linear.weight.grad for linear in model.weights]
    assert [gradient.item() for gradient in held] == [1.5, 2.5]
    step(inputs * [1, 2], inputs, key=0)
    assert [gradient.item() for gradient in held] == [1.5, 2.5]


@both_kinds
def test_training_saves_only_arrays_for_first_derivatives(processes, executor_of):
    class Asking(ta.nn.Linear):
        def loss(self, inputs, targets):
            return self(ta.tensor([[float(current_mode.get().first_order)]])).mean()

    model = Asking(1, 1)
    ids = np.zeros((2, 1), int)
    step = BatchStep(executor_of(model, 2, processes))
    step(ids, ids, key=0)
    assert model.weight.grad.item() == 1  # the input, in both shards
    BatchStep(SerialExecutor(model))(ids, ids, key=0)
    assert model.weight.grad.item() == 1


def test_using_an_overwritten_gradient_is_an_error(executor_of):
    model = make_model()
    optimizer = ta.optim.AdamW(model.parameters())
    step = BatchStep(executor_of(model, 2), [optimizer])
    step(*make_batch(4), key=0)
    weight = model.embedding.weight
    x = ta.tensor(np.ones(weight.shape), requires_grad=True)
    y = (x * weight.grad).sum()
    step(*make_batch(4, seed=1), key=0)
    with pytest.raises(RuntimeError, match="changed after it was used"):
        y.backward()


class Joined:
    """Two processes that train together, played by two threads: the interface of an mpi4py communicator."""

    def __init__(self, rank, meeting):
        self.rank = rank
        self.meeting = meeting

    def allreduce(self, number):
        return sum(self._exchange(number))

    def Allreduce(self, sent, received):
        received[...] = np.sum(self._exchange(sent), axis=0)

    def _exchange(self, value):
        values, barrier = self.meeting
        values[self.rank] = value
        barrier.wait(10)
        result = [values[0], values[1]]
        barrier.wait(10)
        return result


def test_a_communicator_sums_the_gradients_of_all_processes(executor_of):
    inputs, targets = make_batch(6)
    targets[0] = -100  # so that the processes have unequal shares
    expected = whole((inputs, targets))
    meeting = [None, None], threading.Barrier(2)
    models = [make_model(), make_model()]
    found = [None, None]

    def process(rank):
        step = BatchStep(executor_of(models[rank], 2), communicator=Joined(rank, meeting))
        rows = slice(0, 2) if rank == 0 else slice(2, 6)
        found[rank] = run(step, (inputs[rows], targets[rows]))

    threads = [threading.Thread(target=process, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        assert_same(result, expected)
