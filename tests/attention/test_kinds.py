"""A registered attention kind works in every part of the library; each kind matches its declared properties."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention import (
    AttentionKind,
    Option,
    attention_kind,
    attention_kinds,
    kinds,
    register_kind,
)
from tinyattn.cli import main
from tinyattn.models import GPT, GPTConfig
from tinyattn.study import explore, observe
from tinyattn.train.config import make_config

TEXT = "the quick brown fox jumps over the lazy dog.\nhow vexingly quick daft zebras jump!\n" * 12
TINY = "--layers 1 --heads 2 --dim 16 --block-size 8 --batch-size 4 --workers 1 --steps 4".split()


def strided(q_len, k_len, causal, stride):
    """A query sees every key whose distance is a multiple of ``stride``."""
    distance = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    return (distance % stride == 0) & ((distance >= 0) | (not causal))


@pytest.fixture
def toy(monkeypatch):
    """A registered kind from outside the library."""

    def attend(q, k, v, *, mask, causal, scale, dropout_p, stride):
        mask = kind.mask(q, k, mask, causal, {"stride": stride})
        return ta.scaled_dot_product_attention(q, k, v, mask=mask, dropout_p=dropout_p, scale=scale)

    kind = AttentionKind(
        "toy",
        attend,
        options={"stride": Option(2, "Distance between the keys a query sees [keys].", minimum=1)},
        visible=strided,
    )
    monkeypatch.setattr(kinds, "_REGISTRY", dict(kinds._REGISTRY))
    register_kind(kind)
    return kind


@pytest.fixture
def run(toy, tmp_path, monkeypatch):
    """The directory of a run with the toy kind, trained by the command in this process."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT, newline="")
    words = ["--data", "text.txt", "--attention", "toy", "--attention-option", "stride=3"]
    assert main(["train", "--out", "run", *words, *TINY]) == 0
    return Path("run")


def qkv(random, device, length=6):
    return (ta.tensor(random.normal(size=(2, length, 4)), device=device) for _ in range(3))


def gpt(**settings):
    ta.manual_seed(0)
    shape = {"vocabulary_size": 11, "block_size": 9, "layers": 2, "heads": 2, "dim": 8}
    return GPT(GPTConfig(attention="toy", **{**shape, **settings})).to("float64").eval()


@pytest.mark.parametrize("causal", [False, True])
def test_a_registered_kind_is_computed_and_returns_weights(toy, causal, random, device):
    q, k, v = qkv(random, device)
    mask = ta.tensor(strided(6, 6, causal, 3), device=device)
    expected = ta.scaled_dot_product_attention(q, k, v, mask=mask)
    options = {"kind": "toy", "stride": 3, "causal": causal}
    found = ta.scaled_dot_product_attention(q, k, v, **options)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    found, weights = ta.scaled_dot_product_attention(q, k, v, return_weights=True, **options)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    np.testing.assert_array_equal(weights.numpy()[0] > 0, strided(6, 6, causal, 3))


def test_a_mask_hides_keys_that_a_registered_kind_would_see(toy, random, device):
    q, k, _ = qkv(random, device)
    mask = np.arange(6)[None, None] != 0
    for return_weights in (False, True):
        options = {"mask": ta.tensor(mask, device=device), "kind": "toy", "stride": 3}
        found = ta.scaled_dot_product_attention(
            q, k, ta.tensor(np.eye(6), device=device), return_weights=return_weights, **options
        )
        weights = (found[0] if return_weights else found).numpy()
        np.testing.assert_array_equal(weights[0] > 0, strided(6, 6, False, 3) & mask[0])


@pytest.mark.parametrize("alibi", [False, True])
def test_a_registered_kind_is_a_layer_whose_weights_can_be_recorded(toy, alibi, random, device):
    ta.manual_seed(0)
    alibi = ta.nn.ALiBi(2) if alibi else None
    layer = ta.nn.MultiHeadAttention(8, 2, kind="toy", stride=3, causal=True, alibi=alibi)
    layer.to("float64").to(device)
    x = ta.tensor(random.normal(size=(2, 6, 8)), device=device)
    plain = layer(x)
    with layer.record("weights") as record:
        observed = layer(x)
    np.testing.assert_allclose(observed.numpy(), plain.numpy(), atol=1e-12)
    np.testing.assert_array_equal(record["weights"].value[0, 0] > 0, strided(6, 6, True, 3))


def test_a_gpt_reads_on_from_a_cache_with_a_registered_kind(toy, random, device):
    model = gpt(attention_options={"stride": 3}).to(device)
    assert model.blocks[0].attention.options == {"stride": 3}
    ids = ta.tensor(random.integers(0, 11, (2, 9)), device=device)
    with ta.no_grad():
        whole, cache = model(ids).numpy(), model.cache()
        parts = [model(ids[:, a:b], cache=cache).numpy() for a, b in ((0, 4), (4, 5), (5, 9))]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-12)
    model.blocks[0].attention.options = {"stride": 1}
    assert np.abs(model(ids).numpy() - whole).max() > 1e-6


def test_a_kind_that_needs_the_whole_sequence_reads_on_from_a_cache(toy, random, device):
    def attend(q, k, v, **arguments):
        assert q.shape[-2] == k.shape[-2]
        return toy.function(q, k, v, **arguments)

    register_kind(
        AttentionKind(
            "toy", attend, options=toy.options, visible=strided, needs_whole_sequence=True
        )
    )
    test_a_gpt_reads_on_from_a_cache_with_a_registered_kind(toy, random, device)


def test_the_explorer_shows_what_a_registered_kind_sees(toy):
    model = gpt(attention_options={"stride": 4})
    seen = observe(model, "abcdefgh", vocabulary="abcdefghijk")
    np.testing.assert_array_equal(seen.allowed, strided(8, 8, True, 4))
    assert "<html" in explore(model, "abcdefgh", vocabulary="abcdefghijk").html


def test_the_commands_work_with_a_registered_kind(run, capsys):
    stored = json.loads((run / "config.json").read_text())["architecture"]
    assert (stored["attention"], stored["attention_options"]) == ("toy", {"stride": 3})
    assert main(["train", "--resume", "run", "--steps", "6"]) == 0
    assert main(["sample", "run", "--length", "12", "--seed", "1"]) == 0
    assert main(["explore", "run", "--text", "the lazy dog"[:8], "-o", "page.html"]) == 0
    assert Path("page.html").stat().st_size > 10_000
    assert main(["gradcheck", "run"]) == 0
    capsys.readouterr()
    assert main(["gradcheck", "--op", "attention toy causal"]) == 0
    assert "attention toy causal" in capsys.readouterr().out


def test_the_gradients_of_a_registered_kind_are_checked(toy, capsys):
    register_kind(AttentionKind("toy", lambda q, k, v, **_: q.detach() * k * v))
    assert main(["gradcheck", "--op", "attention toy"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_the_help_of_train_lists_the_registered_kinds_and_their_options(toy, capsys):
    assert main(["train", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert ", window, toy]" in words
    assert "toy: stride=2. Distance between the keys a query sees [keys]." in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--attention", "tay"], "Choose from"),
        (["--attention-option", "stride"], "expected NAME=VALUE, given 'stride'"),
        (["--attention-option", "speed=1"], "got speed=1.*expected stride"),
        (["--attention-option", "stride=x"], "stride must be of type int, got stride='x'"),
        (["--attention-option", "stride=true"], "stride must be of type int, got stride=True"),
        (["--attention-option", "stride=0"], "stride must be at least 1"),
        (
            ["--attention", "linear", "--attention-option", "feature_map=3"],
            "must be a Python object",
        ),
        (["--attention", "ring", "--attention-option", "layout=spiral"], "contiguous, zigzag"),
    ],
)
def test_mistakes_in_the_options_of_a_kind_are_one_sentence(toy, words, message, capsys):
    words = words if "--attention" in words else ["--attention", "toy", *words]
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and re.search(message, error), error


def test_a_stored_run_without_attention_options_has_the_kinds_defaults():
    old = {"attention": "window", "window": 7, "global_tokens": 1}
    architecture = make_config(old).architecture
    assert (architecture.window, architecture.attention_options) == (7, None)
    options = GPTConfig(attention="window", window=7, global_tokens=1).kind_options()
    assert options == {"window": 7, "global_tokens": 1}
    assert GPTConfig(attention="linear", window=7).kind_options() == {}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 3, 6])
@pytest.mark.parametrize("name", attention_kinds())
def test_a_kind_sees_the_keys_that_its_visibility_rule_says(name, queries, causal, random, device):
    kind = attention_kind(name)
    if queries != 6 and (kind.needs_whole_sequence or not causal):
        pytest.skip("takes whole sequences only")
    options = kind.complete(kind.check_options)
    q, k, _ = qkv(random, device)
    q, identity = q[:, -queries:], ta.tensor(np.eye(6), device=device)
    # With a different unit vector as the value of each key, the output is the weights.
    weights = ta.scaled_dot_product_attention(
        q, k, identity, kind=name, causal=causal, **options
    ).numpy()
    visible = kind.visible(queries, 6, causal, **options)
    visible = np.ones((queries, 6), bool) if visible is None else visible
    np.testing.assert_array_equal(weights[0] > 0, visible)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)


@pytest.mark.parametrize("name", attention_kinds())
def test_supported_features_work_and_unsupported_ones_raise(name, random, device):
    kind = attention_kind(name)
    q, k, v = qkv(random, device)
    arguments = {"mask": np.ones((1, 1, 6), bool), "dropout": 0.5}
    arguments["mask"] = ta.tensor(arguments["mask"], device=device)
    for feature, keyword in (("mask", "mask"), ("dropout", "dropout_p")):
        call = {keyword: arguments[feature], "kind": name}
        if kind.supports(feature):
            ta.scaled_dot_product_attention(q, k, v, **call)
        else:
            with pytest.raises(ValueError, match=f'kind="{name}" does not support'):
                ta.scaled_dot_product_attention(q, k, v, **call)
    if kind.supports("mask"):
        mask = ta.tensor(np.ones((6, 6), bool), device=device)
        if kind.supports("query_mask"):
            ta.scaled_dot_product_attention(q, k, v, mask=mask, kind=name)
        else:
            with pytest.raises(ValueError, match=r"the same for all queries.*1, 6.*got.*6, 6"):
                ta.scaled_dot_product_attention(q, k, v, mask=mask, kind=name)
    exact = ta.scaled_dot_product_attention(q, k, v, kind="dense").numpy()
    found = ta.scaled_dot_product_attention(q, k, v, kind=name, **kind.check_options).numpy()
    assert np.allclose(found, exact) == kind.is_exact
