"""A batch that the device's memory does not hold: the message names what to lower, and the state before is kept."""

import pytest

from tinyattn.train.config import make_config
from tinyattn.train.session import begin


def test_the_error_names_batch_and_block(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")

    def run_out(inputs, targets, key):
        raise MemoryError("Out of memory allocating 1,000 bytes")

    run_out.executor = trainer.step_function.executor
    trainer.step_function = run_out
    before = trainer.streams["batches"].state
    with pytest.raises(MemoryError, match="lower --batch-size 4 or --block-size 8") as raised:
        trainer.train(display)
    assert "cpu does not hold 4 windows of 8 characters (Out of memory allocating" in str(
        raised.value
    )
    assert trainer.streams["batches"].state == before
