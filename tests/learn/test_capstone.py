"""The capstone: training with a learner's rules is, to the last bit, training with ours; a wrong one is seen."""

import numpy as np
import pytest

from tinyattn.cli import main
from tinyattn.data import InputError
from tinyattn.learn.capstone import (
    OPTIONS,
    RuleError,
    Rules,
    describe,
    in_place,
    load_rules,
    used_primitives,
)
from tinyattn.learn.exercise import PATH, exercise
from tinyattn.train import RunDirectory, begin, load_run, make_config

TEXT = "the quick brown fox jumps over the lazy dog.\nhow vexingly quick daft zebras jump!\n" * 12
TINY = {
    "layers": 1,
    "heads": 2,
    "dim": 16,
    "block_size": 8,
    "batch_size": 4,
    "steps": 6,
    "sample_every": 0,
}


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def __getattr__(self, name):
        return lambda *arguments: None


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, newline="")
    return str(path)


@pytest.fixture
def course(tmp_path):
    """A function that writes files of the named exercises, with our solutions or given texts."""

    def write(*names, **texts):
        directory = tmp_path / "course"
        directory.mkdir(exist_ok=True)
        for name in names:
            lines = ["from tinyattn.learn.exercise import exercise\n"]
            for number, part in enumerate(exercise(name).parts):
                lines.append(f"{part.name} = exercise({name!r}).parts[{number}].solution()\n")
            (directory / f"{name}.py").write_text("".join(lines))
        for name, content in texts.items():
            (directory / f"{name}.py").write_text(content)
        return directory

    return write


def trained(products, config, out):
    """The weights and losses of a run with other products in place."""
    with in_place(products):
        begin(config, out).train(Quiet())
    model = load_run(out, "last").model
    losses = [line["loss"] for line in RunDirectory.open(out).read_metrics() if "loss" in line]
    return {name: p.numpy() for name, p in model.named_parameters()}, losses


@pytest.mark.parametrize(
    ("names", "workers"),
    [
        (PATH, 2),  # attention itself
        ([name for name in PATH if name != "attention"], 1),  # its parts
    ],
)
def test_with_the_solutions_a_run_equals_one_with_our_rules_to_the_last_bit(
    names, workers, course, text, tmp_path
):
    rules = load_rules(course(*names))
    assert all(result.passed for result in rules.results.values()) and not rules.wrong
    config = make_config(rules.options({**TINY, "data": text, "workers": workers}))
    used = set(used_primitives(config)) & set(rules.functions)
    assert ("attention" in used) == ("attention" in names) and len(used) >= 4
    ours = trained(rules.kernels_off(), config, tmp_path / "ours")
    theirs = trained(rules.products(), config, tmp_path / "theirs")
    assert theirs[1] == ours[1] and len(ours[1]) == TINY["steps"]
    for name, weights in ours[0].items():
        assert np.array_equal(weights, theirs[0][name]), name


def test_a_wrong_rule_gives_another_run(course, text, tmp_path):
    rules = load_rules(course(softmax="def softmax_vjp(g, y, x, axis=-1): return y * g\n"))
    assert rules.wrong == ["softmax"]
    config = make_config(rules.options({**TINY, "data": text, "workers": 1}))
    ours = trained(rules.kernels_off(), config, tmp_path / "ours")
    theirs = trained(rules.products(), config, tmp_path / "theirs")
    assert ours[1][0] == theirs[1][0]
    name = "blocks.0.attention.query.weight"
    assert np.abs(ours[0][name] - theirs[0][name]).max() > 1e-3


def test_linear_layers_and_attention_are_composed_of_what_was_written():
    def operations(*names):
        rules = Rules(functions=dict.fromkeys(names))
        with in_place(rules.kernels_off()):
            return set(used_primitives(make_config(rules.options(TINY))))

    assert {"linear", "attention"} <= operations()
    assert {"softmax", "where", "linear"} <= operations("softmax")
    assert "attention" not in operations("softmax")
    assert "linear" not in operations("matmul") | operations("add")
    assert "softmax" not in operations("softmax", "attention")


def test_the_options_that_it_chooses_exist_and_give_way_to_those_given():
    make_config(OPTIONS)
    rules = Rules(functions={"softmax": None})
    assert rules.options({"activation": "silu"})["activation"] == "silu"
    assert rules.options({"attention": "window"})["attention"] == "window"
    dropped = Rules(functions={"attention": None}).options({"dropout": 0.1})
    assert dropped["attention"] == "dense"  # the exercise knows no dropout


def test_the_first_lines_say_whose_rules_and_which_exercises_are_idle(course):
    rules = load_rules(course("softmax", "sigmoid", "graph", gelu=exercise("gelu").file()))
    lines = describe(rules, make_config(rules.options(TINY)))
    yours, ours, idle, unsolved = lines.splitlines()
    assert yours == "rules  yours: softmax"
    assert "matmul" in ours and "gelu" in ours and "softmax" not in ours
    assert "sigmoid, graph" in idle and unsolved.endswith("ours in its place: gelu")


def test_a_model_that_needs_more_than_the_exercise_is_refused(course):
    rules = load_rules(course(gelu="def gelu_vjp(g, y, x): return g\n"))
    config = make_config(rules.options({**TINY, "activation": "gelu_tanh"}))
    with pytest.raises(InputError, match="takes no approximate"):
        describe(rules, config)


def test_what_a_file_does_not_give_is_ours(course):
    rules = load_rules(course(softmax="1 / 0\n", gelu="def gelu_vjp(g, y, x): return g[:1]\n"))
    assert not rules.functions and not any(r.passed for r in rules.results.values())


def test_a_directory_without_exercises_is_an_error(tmp_path):
    with pytest.raises(InputError, match="holds no exercise"):
        load_rules(tmp_path)
    with pytest.raises(InputError, match="no directory"):
        load_rules(tmp_path / "nowhere")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rule_that_fails_in_training_is_a_sentence(workers, text, tmp_path):
    def softmax_vjp(g, y, x, axis=-1):
        raise ZeroDivisionError("mine")

    rules = Rules(functions={"softmax": softmax_vjp})
    config = make_config(rules.options({**TINY, "data": text, "workers": workers}))
    with pytest.raises(
        RuleError, match=r"softmax_vjp failed in training.*\n.*ZeroDivisionError: mine"
    ):
        trained(rules.products(), config, tmp_path / "run")


def words(course, text, *more, **options):
    given = {**TINY, "rules": course, "data": text, "workers": 1, **options}
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in given.items()]
    return ["train", *(word for pair in pairs for word in pair), *more]


def test_the_command_ends_in_a_run_with_samples(course, text, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(words(course("softmax", "matmul"), text, out=out, sample_every=6)) == 0
    said = capsys.readouterr().out
    assert "rules  yours: matmul, softmax\n" in said
    assert "sample after step 6" in said and (out / "loss.png").exists()


def test_the_command_refuses_a_wrong_rule_and_draws_both_losses_anyway(
    course, text, tmp_path, capsys
):
    directory = course(softmax="def softmax_vjp(g, y, x, axis=-1): return y * g\n")
    out = tmp_path / "run"
    assert main(words(directory, text, out=out)) == 1
    captured = capsys.readouterr()
    assert "lacks the subtracted mean" in captured.out and "--anyway" in captured.err
    assert not out.exists()
    assert main(words(directory, text, "--anyway", out=out)) == 0
    said = capsys.readouterr().out
    assert "WRONG, and used on purpose: softmax" in said
    assert (out / "rules.png").stat().st_size > 10_000
    assert (tmp_path / "run-right" / "last").is_dir()


def test_anyway_without_rules_is_an_error(capsys):
    assert main(["train", "--anyway"]) == 2
    assert "--rules" in capsys.readouterr().err
