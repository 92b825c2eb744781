"""Training: configuration, training loop, parallel execution, saved runs.

>>> import tempfile
>>> from tinyattn.train import begin, load_run, make_config
>>> config = make_config(steps=2, layers=1, heads=1, dim=8, block_size=8, sample_every=0)
>>> trainer = begin(config, tempfile.mkdtemp())
>>> trainer.step, len(trainer.dataset.vocabulary) > 90
(0, True)
"""

from .config import TrainConfig, make_config
from .evaluation import evaluate
from .loading import LoadedModel, LoadedRun, load_model, load_run
from .session import begin, resume
from .storage.run_directory import RunDirectory
from .trainer import NonFiniteError, Trainer

__all__ = [
    "LoadedModel",
    "LoadedRun",
    "NonFiniteError",
    "RunDirectory",
    "TrainConfig",
    "Trainer",
    "begin",
    "evaluate",
    "load_model",
    "load_run",
    "make_config",
    "resume",
]
