"""Batches of arrays: each row once per epoch, together with the same row of the other arrays."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random
from tinyattn.data import ArrayBatches

X = np.arange(14, dtype=np.float32).reshape(7, 2)
Y = np.arange(7)


def test_an_epoch_holds_every_row_once_with_its_target():
    batches = ArrayBatches(X, Y, batch_size=3, random=Random(0))
    epochs = []
    for _ in range(2):
        pairs = list(batches)
        assert [len(x) for x, _ in pairs] == [3, 3, 1] and len(batches) == 3
        rows = np.concatenate([y.numpy() for _, y in pairs])
        assert sorted(rows) == list(Y)
        assert np.array_equal(np.concatenate([x.numpy() for x, _ in pairs]), X[rows])
        epochs.append(rows.tolist())
    assert epochs[0] != epochs[1] and epochs[0] != list(Y)


def test_the_order_follows_the_seed():
    def rows():
        return [y.tolist() for _, y in ArrayBatches(X, Y, batch_size=2)]

    ta.manual_seed(5)
    first = rows()
    ta.manual_seed(5)
    assert rows() == first


def test_without_shuffling_the_rows_come_in_their_order():
    batches = ArrayBatches(X, Y, batch_size=4, shuffle=False)
    assert [y.tolist() for _, y in batches] == [[0, 1, 2, 3], [4, 5, 6]]
    dropped = ArrayBatches(X, Y, batch_size=4, shuffle=False, drop_last=True)
    assert [y.tolist() for _, y in dropped] == [[0, 1, 2, 3]] and len(dropped) == 1
    assert list(ArrayBatches(X, batch_size=10, drop_last=True)) == []


def test_of_one_array_a_batch_is_a_tensor_and_dtypes_stay():
    (x,) = ArrayBatches(X, batch_size=7)
    assert type(x) is ta.Tensor and x.dtype == np.float32
    ((y, z),) = ArrayBatches(Y, [[1.0]] * 7, batch_size=7)
    assert y.dtype == np.int64 and z.shape == (7, 1)


def test_batches_go_to_a_device_or_stay_where_tensors_are(device):
    x = ta.tensor(X, device=device)
    for batches in (
        ArrayBatches(x, batch_size=4),
        ArrayBatches(X, batch_size=4, device=device),
        ArrayBatches(ta.tensor(X), batch_size=4, device=device),
    ):
        assert {batch.device for batch in batches} == {device}
    with ta.device(device):
        assert {batch.device for batch in ArrayBatches(X, batch_size=4)} == {device}


def test_a_model_learns_from_them():
    ta.manual_seed(0)
    x = ta.randn(64, 2).numpy()
    y = (x @ np.array([2.0, -1.0], np.float32))[:, None]
    model = ta.nn.Linear(2, 1)
    optimizer = ta.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        for inputs, targets in ArrayBatches(x, y, batch_size=16):
            optimizer.zero_grad()
            ta.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    np.testing.assert_allclose(model.weight.numpy(), [[2], [-1]], atol=1e-3)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ArrayBatches(X, Y[:3], batch_size=2), ValueError, "have 7, 3 rows"),
        (lambda: ArrayBatches(X, batch_size=0), ValueError, "at least 1, got 0"),
        (lambda: ArrayBatches(X, batch_size=1.5), TypeError, "whole number, got 1.5"),
        (lambda: ArrayBatches(batch_size=2), TypeError, "got no arrays"),
        (lambda: ArrayBatches(3.0, batch_size=2), ValueError, "without axes"),
        (lambda: ArrayBatches(np.ma.array(Y), batch_size=2), TypeError, "masked array"),
    ],
)
def test_invalid_arguments_raise(make, error, words):
    with pytest.raises(error, match=words):
        make()
