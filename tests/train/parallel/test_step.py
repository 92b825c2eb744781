"""A sharded step equals the whole one, is reproduced to the bit, and leaves no trace."""

import multiprocessing
import threading

import numpy as np
import pytest
import threadpoolctl

import tinyattn as ta
from tinyattn.autograd.modes import current_mode
from tinyattn.backend import blas as blas_threads
from tinyattn.train.parallel import step as parallel
from tinyattn.train.parallel import threads as workers
from tinyattn.train.parallel.step import ParallelStep
from tinyattn.train.step import PlainStep


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
    gradients = {name: p.grad.numpy() for name, p in step.model.named_parameters()}
    step.close()
    return loss, gradients


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
def test_a_sharded_step_equals_the_whole_one(count, processes):
    batch = make_batch(5)
    whole = run(PlainStep(make_model()), batch)
    assert_same(run(ParallelStep(make_model(), count, processes=processes), batch), whole)


@both_kinds
def test_shards_weigh_as_much_as_they_have_targets_that_count(processes):
    inputs, targets = make_batch(4)
    targets[0] = -100
    targets[1, 2:] = -100
    whole = run(PlainStep(make_model()), (inputs, targets))
    step = ParallelStep(make_model(), 4, processes=processes)
    assert_same(run(step, (inputs, targets)), whole)


def test_a_batch_without_targets_that_count_has_gradient_zero():
    inputs, targets = make_batch(4)
    loss, gradients = run(ParallelStep(make_model(), 2), (inputs, np.full_like(targets, -100)))
    assert loss == 0
    assert not any(gradient.any() for gradient in gradients.values())


@both_kinds
def test_pieces_of_a_shard_add_up(monkeypatch, processes):
    batch = make_batch(9)
    whole = run(PlainStep(make_model()), batch)
    monkeypatch.setattr(parallel, "TOKENS_AT_ONCE", 16)
    assert_same(run(ParallelStep(make_model(), 2, processes=processes), batch), whole)


def test_the_same_number_of_workers_gives_the_same_bits():
    batch = make_batch(6)
    runs = [
        run(ParallelStep(make_model("float32", dropout=0.2), 3, None, processes), batch, key=99)
        for processes in (False, False, True, True)
    ]
    for loss, gradients in runs[1:]:
        assert loss == runs[0][0]
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(gradient, runs[0][1][name])


def test_dropout_follows_from_the_key_and_differs_between_shards():
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
    step = ParallelStep(model, 2)
    first = step(*batch, key=1)
    again = step(*batch, key=1)
    other = step(*batch, key=2)
    step.close()
    assert first == again != other
    assert len(set(drawn[:2])) == 2  # equal rows, unequal masks


def test_the_default_is_one_worker_for_each_core_allowed(monkeypatch):
    monkeypatch.setattr(parallel, "available_cores", lambda: 3)
    step = ParallelStep(make_model())
    assert step.workers == 3
    step.close()


def test_blas_is_held_to_its_share_of_the_cores_and_left_as_found(monkeypatch):
    monkeypatch.setattr(workers, "available_cores", lambda: 4)
    model = make_model()
    seen = []
    original = model.loss

    def loss(inputs, targets):
        seen.extend(library["num_threads"] for library in blas())
        return original(inputs, targets)

    def blas():
        return [
            library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"
        ]

    model.loss = loss
    with threadpoolctl.threadpool_limits(4, user_api="blas"):
        before = blas()
        step = ParallelStep(model, 2)
        step(*make_batch(4), key=0)
        step.close()
        assert blas() == before
    assert seen and max(seen) == 1


def threads_of_blas(model, item):
    libraries = threadpoolctl.threadpool_info()
    return max(one["num_threads"] for one in libraries if one["user_api"] == "blas")


@both_kinds
@pytest.mark.parametrize(("count", "threads"), [(1, 6), (3, 1)])
def test_blas_has_one_thread_in_each_of_several_workers(count, threads, processes, monkeypatch):
    monkeypatch.setattr(workers, "available_cores", lambda: 6)
    with threadpoolctl.threadpool_limits(6, user_api="blas"):
        step = ParallelStep(make_model(), count, processes=processes)
        assert step.map(threads_of_blas, range(3)) == [threads] * 3
        assert threads_of_blas(None, None) == 6
        step.close()


def knows_of_one_thread(model, item):
    return blas_threads.has_one_thread()


@both_kinds
@pytest.mark.parametrize(
    ("count", "cores", "known"), [(1, 1, True), (1, 4, False), (2, 2, True), (2, 4, True)]
)
def test_workers_know_whether_blas_has_one_thread(count, cores, known, processes, monkeypatch):
    monkeypatch.setattr(workers, "available_cores", lambda: cores)
    step = ParallelStep(make_model(), count, processes=processes)
    assert step.map(knows_of_one_thread, [0, 1]) == [known, known]
    assert not blas_threads.has_one_thread()
    step.close()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_worker_s_error_is_raised_in_the_caller_after_all_have_stopped(failing):
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
    step = ParallelStep(model, 3)
    with pytest.raises(ArithmeticError, match=f"shard {failing}"):
        step(inputs, targets, key=0)
    assert threadpoolctl.threadpool_info() == before
    model.loss = original
    assert np.isfinite(step(inputs, targets, key=0))  # and it can go on
    step.close()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_is_shared_and_all_of_it_done(count):
    step = ParallelStep(make_model(), count)
    done = np.zeros(50, dtype=int)

    def work(item):
        done[item] += 1

    step.for_each(work, range(50))
    step.for_each(work, [])
    assert (done == 1).all()

    def fail(item):
        if item == 20:
            raise ArithmeticError("item 20")

    with pytest.raises(ArithmeticError, match="item 20"):
        step.for_each(fail, range(50))
    step.close()


def adamw(parameters):
    return ta.optim.AdamW(parameters, lr=0.1)


@pytest.mark.parametrize("make", [adamw, ta.optim.Muon], ids=["adamw", "muon"])
def test_updates_by_several_workers_are_the_same_to_the_last_bit(make, random):
    start = random.standard_normal((10, 100, 90)).astype(np.float32)  # several blocks, and stacks
    gradients = random.standard_normal((3, *start.shape)).astype(np.float32)
    results = []
    for count, processes in ((1, False), (3, False), (3, True)):
        parameters = [ta.nn.Parameter(matrix) for matrix in start]
        optimizer = make(parameters)
        step = ParallelStep(make_model(), count, processes=processes)
        step.work_for(optimizer)
        for gradient in gradients:
            for parameter, one in zip(parameters, gradient):
                parameter.grad = ta.tensor(one)
            optimizer.step()
        step.close()
        results.append([parameter.numpy() for parameter in parameters])
    assert not np.array_equal(results[0], start)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_a_leaf_that_the_first_shard_does_not_reach_has_a_gradient_of_its_own():
    """And one that stays when the workers go on."""

    class Two(ta.nn.Module):
        def __init__(self):
            self.weights = ta.nn.ModuleList([ta.nn.Linear(1, 1), ta.nn.Linear(1, 1)])

        def loss(self, inputs, targets):
            return self.weights[int(inputs[0, 0])](ta.tensor([[float(inputs[0, 1])]])).mean()

    model = Two()
    step = ParallelStep(model, 2, processes=True)
    inputs = np.array([[0, 3], [1, 5]])
    step(inputs, inputs, key=0)
    held = [linear.weight.grad for linear in model.weights]
    assert [gradient.item() for gradient in held] == [1.5, 2.5]
    step(inputs * [1, 2], inputs, key=0)
    assert [gradient.item() for gradient in held] == [1.5, 2.5]
    step.close()


@both_kinds
def test_training_keeps_only_what_first_derivatives_need(processes):
    class Asking(ta.nn.Linear):
        def loss(self, inputs, targets):
            return self(ta.tensor([[float(current_mode.get().first_order)]])).mean()

    model = Asking(1, 1)
    ids = np.zeros((2, 1), int)
    step = ParallelStep(model, 2, processes=processes)
    step(ids, ids, key=0)
    assert model.weight.grad.item() == 1  # the input, in both shards
    PlainStep(model)(ids, ids, key=0)
    assert model.weight.grad.item() == 1
    step.close()


@both_kinds
@pytest.mark.parametrize("make", [adamw, ta.optim.Muon], ids=["adamw", "muon"])
def test_an_optimiser_is_taken_on_with_what_it_remembers(make, processes, random):
    results = []
    for taken_on_after in (None, 2):
        model = ta.nn.Linear(40, 90, bias=False)
        model.weight.data = np.linspace(-1, 1, 3600, dtype=np.float32).reshape(40, 90)
        optimizer = make(model.parameters())
        step = ParallelStep(model, 2, processes=processes)
        for number in range(4):
            if number == taken_on_after:
                step.work_for(optimizer)
            rows = np.random.default_rng(number).standard_normal((40, 90)).astype(np.float32)
            model.weight.grad = ta.tensor(rows)
            optimizer.step()
        step.close()
        optimizer.step()  # alone again
        results.append(model.weight.numpy())
    np.testing.assert_array_equal(*results)


def test_a_gradient_that_the_next_step_writes_to_is_not_used_unnoticed():
    model = make_model()
    optimizer = adamw(model.parameters())
    step = ParallelStep(model, 2)
    step.work_for(optimizer)
    step(*make_batch(4), key=0)
    weight = model.embedding.weight
    x = ta.tensor(np.ones(weight.shape), requires_grad=True)
    y = (x * weight.grad).sum()
    step(*make_batch(4, seed=1), key=0)
    with pytest.raises(RuntimeError, match="changed after it was used"):
        y.backward()
    step.close()


def test_a_closed_step_computes_no_more_and_leaves_the_optimiser_to_itself():
    model = make_model()
    optimizer = adamw(model.parameters())
    step = ParallelStep(model, 2, processes=True)
    step.work_for(optimizer)
    step(*make_batch(4), key=0)
    step.close()
    optimizer.step()
    assert step.map(first_ids, [np.array([0])]) == [first_ids(model, np.array([0]))]
    for use in (lambda: step(*make_batch(4), key=0), lambda: step.for_each(print, [1, 2])):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    assert not multiprocessing.active_children()


def test_closing_ends_the_threads():
    before = threading.active_count()
    step = ParallelStep(make_model(), 3)
    step(*make_batch(3), key=0)
    assert threading.active_count() > before
    step.close()
    assert threading.active_count() == before


def test_workers_see_the_modes_of_the_caller():
    model = make_model()
    weight = model.blocks[0].attention.query.weight._data
    weight[...] = np.where(weight > 0, 1e308, -1e308)
    step = ParallelStep(model, 2)
    with ta.detect_anomaly(), pytest.raises(RuntimeError, match="linear produced"):
        step(*make_batch(4), key=0)
    step.close()


def first_ids(model, ids):
    return float(model.embedding.weight.numpy()[ids[0], 0]), model.training


@both_kinds
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_a_map_keeps_the_order_of_its_items(items, processes):
    model = make_model().eval()
    step = ParallelStep(model, 3, processes=processes)
    ids = [np.array([number]) for number in range(items)]
    column = model.embedding.weight.numpy()[:, 0]
    assert step.map(first_ids, ids) == [(column[number], False) for number in range(items)]
    step.close()


def test_fewer_than_one_worker_is_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        ParallelStep(make_model(), 0)


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


def test_a_communicator_joins_the_batches_of_all_processes():
    inputs, targets = make_batch(6)
    targets[0] = -100  # so that the processes have unequal shares
    whole = run(PlainStep(make_model()), (inputs, targets))
    meeting = [None, None], threading.Barrier(2)
    models = [make_model(), make_model()]
    found = [None, None]

    def process(rank):
        step = ParallelStep(models[rank], 2, communicator=Joined(rank, meeting))
        rows = slice(0, 2) if rank == 0 else slice(2, 6)
        found[rank] = run(step, (inputs[rows], targets[rows]))

    threads = [threading.Thread(target=process, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        assert_same(result, whole)
