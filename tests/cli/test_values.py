"""Every option of every command with unusual values: a result, or one sentence and status 2."""

import dataclasses
import json
import typing

import pytest

from tinyattn.cli.bench import BenchOptions
from tinyattn.cli.explain import ExplainOptions
from tinyattn.cli.explore import ExploreOptions
from tinyattn.cli.gradcheck import GradcheckOptions
from tinyattn.cli.sample import SampleOptions
from tinyattn.cli.train import SourceOptions
from tinyattn.data import InputError
from tinyattn.train.config import GROUPS, make_config, option, options_from_json
from tinyattn.train.parallel.mpi import launched_processes

from .conftest import TINY

VALUES = [
    *" |-|--|-1|0|1|00|+1|1.5|1e3|1e400|-1e400|nan|inf|1e-320|1e308|0x10|1_000".split("|"),
    *("", "9" * 19, "9" * 30, "9" * 400, "9" * 5000, "-" + "9" * 5000, "a" * 1200, "a," * 600),
    *"none|None|true|[]|{}|null|\0|a\0b|\ud800|\udc80|\x1b[2J|~nobody-here/x|/|.|..|x/y/z".split(
        "|"
    ),
]
COMMANDS = {
    "sample": SampleOptions,
    "explore": ExploreOptions,
    "gradcheck": GradcheckOptions,
    "explain": ExplainOptions,
    "bench": BenchOptions,
}


def spelling(name, owner):
    return "--break" if name == "broken" else option(name)


def one_sentence(answer, words):
    """Check that the command succeeded or printed one short error line; returns its status."""
    assert answer.status in (0, 1, 2), words
    if answer.status == 2:
        assert answer.error.startswith("tinyattn: ") and answer.error.count("\n") == 1, words
        assert len(answer.error) < 1000, words
    assert "Traceback" not in answer.error
    return answer.status


@pytest.fixture
def small(monkeypatch):
    """Skip the survey, which other tests cover."""
    monkeypatch.setattr("tinyattn.cli.gradcheck.survey", lambda *arguments: 0)


@pytest.mark.parametrize(
    "command, name",
    [(c, f.name) for c, owner in COMMANDS.items() for f in dataclasses.fields(owner)],
)
def test_every_option_accepts_or_refuses_every_value(call, small, trained, tmp_path, command, name):
    first = {
        "sample": [trained, "--length", "2"],
        "explore": [trained, "-o", "page.html", "--text", "the fox"],
        "gradcheck": [],
        "explain": ["cross_entropy"],
        "bench": [],
    }[command]
    statuses = set()
    for value in VALUES:
        word = spelling(name, COMMANDS[command])
        words = [command, *first, f"{word}={value}"]
        if command == "sample" and name == "length":
            words = [command, trained, f"{word}={value}"]
        if "-o" in words and name in ("output", "text"):
            words = words[:2] + [words[-1]]
        statuses.add(one_sentence(call(*words), words))
    assert 2 in statuses or name in ("prompt", "op") or command == "bench"


# One option of each type: values are refused by type.
HINTS = {
    str(hint): name
    for owner in (*GROUPS.values(), SourceOptions)
    for name, hint in typing.get_type_hints(owner, include_extras=True).items()
}
TRAIN = [name for name in HINTS.values() if not name.startswith("attention")]


@pytest.mark.parametrize("name", TRAIN)
def test_training_accepts_or_refuses_every_value(call, monkeypatch, name):
    monkeypatch.setattr("tinyattn.cli.train.begin", stop)
    for value in VALUES:
        words = ["train", f"{option(name)}={value}"]
        one_sentence(call(*words), words)


def stop(*arguments, **options):
    raise InputError("begun")


LARGE = {"layers": [], "workers": [], "snapshots": ["10000"]}  # the rest is large in one way
LARGE_NUMBERS = ["1000000000", "1e308", "1e-320"]


@pytest.mark.parametrize(
    "name",
    [
        field.name
        for owner in GROUPS.values()
        for field in dataclasses.fields(owner)
        if not isinstance(field.default, str | bool)
    ],
)
def test_a_run_begins_or_is_refused_with_the_largest_numbers(call, text_file, monkeypatch, name):
    monkeypatch.setattr("tinyattn.train.trainer.Trainer.train", stop)
    for value in LARGE.get(name, LARGE_NUMBERS):
        words = ["train", "--data", text_file, *TINY, f"{option(name)}={value}"]
        if option(name) in words:
            place = words.index(option(name))
            del words[place : place + 2]
        one_sentence(call(*words), words)


JSON = [
    *'null|true|1.5|-1|1e999|NaN|Infinity|""|"a"|[]|[[]]|["fast"]|{}|{"a": 1}'.split("|"),
    *(r'"\u0000"', r'"\ud800"', "1" + "0" * 30, "1" + "0" * 5000, json.dumps("a" * 5000)),
    "[" * 100_000 + "]" * 100_000,
]


@pytest.mark.parametrize(
    "name", [f.name for owner in GROUPS.values() for f in dataclasses.fields(owner)]
)
def test_a_configuration_file_accepts_or_refuses_every_value(name):
    for value in JSON:
        try:
            make_config(options_from_json(f'{{"{name}": {value}}}'))
        except InputError as error:
            assert len(str(error)) < 500


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a":' * 100_000, '{"run": ' + "9" * 5000 + "}"]
)
def test_a_configuration_file_nested_too_deeply_is_one_sentence(refuse, tmp_path, content):
    (tmp_path / "options.json").write_text(content)
    assert "options.json is not JSON" in refuse("train", "--config", "options.json")


@pytest.mark.parametrize("value", ["abc", "", "-1", "1.5", "9" * 400, "9" * 5000])
def test_an_invalid_launcher_variable_is_ignored(monkeypatch, value):
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.setenv(name, value)
    assert launched_processes().size == 1


@pytest.mark.parametrize(
    "words, suggestion",
    [
        (["train", "--lr", "0.1"], "unknown option --lr: did you mean --learning-rate?"),
        (["train", "--lr=0.1"], "unknown option --lr: did you mean --learning-rate?"),
        (["train", "--bs", "3"], "did you mean --batch-size"),
        (["train", "--n_embd", "3"], "did you mean --dim?"),
        (["train", "--epochs", "3"], "did you mean --steps?"),
        (["train", "--learning", "3"], "did you mean --learning-rate"),
        (["train", "--zzz", "3"], "unknown option --zzz: --help lists the options"),
        (["train", "a.txt"], "tinyattn train: unexpected argument 'a.txt'"),
        (["sample", "run", "--temp", "1"], "did you mean --temperature"),
        (["sample", "run", "--max-new-tokens", "1"], "did you mean --length?"),
        (["gradcheck", "--op", "nope"], "did you mean ne"),
        (["gradcheck", "--op", "SOFTMAX"], "did you mean softmax"),
        (["bench", "tap"], "did you mean tape?"),
        (["trian"], 'Did you mean "train"?'),
        (["explain", "sofmax"], 'Did you mean "softmax"?'),
    ],
)
def test_similar_names_are_suggested(refuse, words, suggestion):
    assert suggestion in refuse(*words)


def test_similar_names_are_suggested_for_configuration_files():
    with pytest.raises(InputError, match="unknown option 'lr': did you mean learning_rate"):
        make_config({"lr": 0.1})
