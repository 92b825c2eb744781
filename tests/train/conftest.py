"""A text and options so small that a run takes a fraction of a second."""

import pytest

import tinyattn as ta
from tinyattn.data import CharVocabulary
from tinyattn.data.tokenizers import huggingface_files
from tinyattn.models import GPT, GPTConfig
from tinyattn.train.parallel import ForkExecutor, SerialExecutor, ThreadExecutor
from tinyattn.train.reports import Display

TEXT = "the quick brown fox jumps over the lazy dog.\nhow vexingly quick daft zebras jump!\n" * 12


@pytest.fixture
def text_file(tmp_path):
    """A file with a text of about a thousand characters."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT, newline="")
    return path


@pytest.fixture
def gpt2_folder(tmp_path):
    """A folder with a small GPT-2 and its tokenizer, the characters of ``TEXT``."""
    vocabulary = CharVocabulary.from_text(TEXT)
    ta.manual_seed(0)
    config = GPTConfig.gpt2(
        vocabulary_size=len(vocabulary), block_size=16, layers=2, heads=2, dim=16, dropout=0.1
    )
    path = tmp_path / "gpt2"
    GPT(config).save_pretrained(path)
    for name, text in huggingface_files(vocabulary).items():
        (path / name).write_text(text)
    return path


@pytest.fixture
def tiny(text_file):
    """Options of a run of 15 steps, with everything in it that draws random numbers."""
    return {
        "data": str(text_file),
        "steps": 15,
        "evaluate_every": 5,
        "sample_every": 0,
        "layers": 2,
        "heads": 2,
        "dim": 16,
        "block_size": 8,
        "batch_size": 4,
        "dropout": 0.1,
        "workers": 1,
    }


class RecordingDisplay(Display):
    """A display that records the reports."""

    def __init__(self):
        self.steps, self.evaluations, self.samples, self.notes = [], [], [], []
        self.progress = []

    def step(self, report):
        self.steps.append(report)

    def evaluating(self, step, done, total):
        self.progress.append((step, done, total))

    def evaluation(self, report):
        self.evaluations.append(report)

    def sample(self, step, text):
        self.samples.append((step, text))

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def display():
    """A display that records the reports and prints nothing."""
    return RecordingDisplay()


@pytest.fixture
def executor_of():
    """``(model, workers, processes)``: an executor with threads or processes, closed after the test."""
    made = []

    def make(model, workers, processes=False):
        kind = ForkExecutor if processes else ThreadExecutor
        made.append(SerialExecutor(model) if workers == 1 else kind(model, workers))
        return made[-1]

    yield make
    for executor in made:
        executor.close()
