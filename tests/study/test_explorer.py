"""``explore`` on real models: every number on the page equals that of the engine."""

import json
import re
import zlib
from base64 import b64decode

import numpy as np
import pytest

import tinyattn as ta
from tests.study.browser import opened, running_browser
from tests.study.test_page import OVERLAYS, maps_on_page
from tinyattn.models import GPT, Encoder, EncoderConfig, GPTConfig
from tinyattn.study import explore, explorer, observe
from tinyattn.study.page import MEGABYTE, payload_of
from tinyattn.train.config import make_config
from tinyattn.train.session import begin

HARD_TEXT = "a\t\"b\" 'c'\n</script><script>window.broken=1</script>&amp;<!--😀é"


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 6 steps with 3 snapshots, on a text with markup and special characters."""
    folder = tmp_path_factory.mktemp("explore")
    text = folder / "text.txt"
    text.write_text(HARD_TEXT * 20, "utf-8", newline="")
    options = dict(layers=2, heads=2, dim=16, block_size=16, batch_size=4, workers=1)
    config = make_config(
        data=str(text),
        steps=6,
        evaluate_every=3,
        sample_every=0,
        snapshots=3,
        out=str(folder / "run"),
        **options,
    )
    begin(config).train()
    return folder / "run"


def payload_in(path):
    text = re.search(
        r'<script type="application/json" id="payload">(.*?)</script>', path.read_text("utf-8")
    )[1]
    return json.loads(text)


def check_page_against_engine(tab, seen, heads=None):
    """Compare every overlay of the ``heads`` on the page with the engine's arrays."""
    engine = {
        "P": seen.weights,
        "S": seen.scores,
        "dP": seen.gradient,
        "dS": seen.score_gradient,
        "PdP": seen.weights * seen.gradient,
    }
    for layer, head in np.ndindex(seen.scores.shape[:2]) if heads is None else heads:
        found = maps_on_page(tab, layer, head)
        for key in OVERLAYS:
            expected = engine[key][layer, head][seen.allowed]
            np.testing.assert_allclose(
                found[key][seen.allowed], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max()
            )
        np.testing.assert_allclose(np.nansum(found["P"], axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(np.nansum(found["dS"], axis=1), 0, atol=1e-12)


def test_the_page_of_a_run_shows_the_engine_s_numbers(browser, trained, tmp_path, capsys):
    output = tmp_path / "page.html"
    text = HARD_TEXT[:16]
    assert explorer.run(str(trained), text, output) == 0
    assert str(output) in capsys.readouterr().out
    seen = observe(trained, text)
    with opened(browser, output) as tab:
        check_page_against_engine(tab, seen)
        dP = seen.gradient_of(7)
        found = maps_on_page(tab, 1, 1, loss=7)["dP"]
        np.testing.assert_allclose(
            found[seen.allowed], dP[1, 1][seen.allowed], rtol=1e-6, atol=1e-12
        )
        assert tab.evaluate("window.broken") is None
        assert tab.evaluate("tinyattn.page.characters") == list(text)
        steps = tab.evaluate("tinyattn.page.steps.map((one) => one.step)")
        assert len(steps) >= 3 and steps == sorted(steps) and steps[0] == 0
        assert tab.evaluate("tinyattn.page.steps[tinyattn.page.own].scores.dtype") == "float32"
        shown = tab.locator("#predictions-table tbody tr").nth(3).locator("td").nth(3).inner_text()
        assert float(shown) == pytest.approx(seen.losses[3], abs=5e-3)
        assert tab.locator("#training path.line").count() >= 3, "loss curve and norms"


def test_a_random_model_of_6_by_6_on_128_characters_fits_and_agrees(browser, tmp_path):
    ta.manual_seed(0)
    vocabulary = "".join(map(chr, range(97, 123)))
    model = GPT(GPTConfig.gpt2(vocabulary_size=26, block_size=128, layers=6, heads=6, dim=48))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 6  # weights that are no longer even
    text = "".join(np.random.default_rng(0).choice(list(vocabulary), 128))
    page = explore(model, text, vocabulary=vocabulary)
    path = page.save(tmp_path / "large.html")
    assert path.stat().st_size < 4 * MEGABYTE
    assert page.content.targets, "with the gradients of some single characters"
    seen = observe(model, text, vocabulary=vocabulary)
    with opened(browser, path) as tab:
        check_page_against_engine(tab, seen, heads=[(0, 0), (5, 3)])


def test_an_encoder_and_window_attention_can_be_explored(browser, tmp_path):
    ta.manual_seed(1)
    shape = dict(vocabulary_size=8, block_size=12, layers=2, heads=2, dim=16)
    encoder = Encoder(EncoderConfig(**shape))
    window = GPT(GPTConfig.gpt2(attention="window", window=3, **shape))
    for model in (encoder, window):
        path = explore(model, "abcabhgfacb", vocabulary="abcdefgh").save(tmp_path / "page.html")
        with opened(browser, path) as tab:
            check_page_against_engine(tab, observe(model, "abcabhgfacb", vocabulary="abcdefgh"))
            assert "abcabhgfacb".startswith(tab.evaluate("tinyattn.page.characters")[0])


def test_the_requested_positions_are_included(trained):
    text = HARD_TEXT[:16]
    kept = lambda positions: sorted(explore(trained, text, positions=positions).content.targets)  # noqa: E731
    assert kept([3, -2]) == [3, 14]
    assert kept("all") == list(range(15))
    with pytest.raises(
        ValueError, match="position 15 has no target character: expected one of 0 to 14"
    ):
        kept([15])


def test_snapshots_of_an_encoder_are_included(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abcdefgh" * 40, "utf-8")
    config = make_config(
        model="encoder",
        data=str(text),
        out=str(tmp_path / "run"),
        steps=4,
        evaluate_every=2,
        sample_every=0,
        snapshots=2,
        layers=1,
        heads=1,
        dim=8,
        block_size=8,
        batch_size=2,
        workers=1,
    )
    begin(config).train()
    content = explore(tmp_path / "run").content
    assert content.snapshots and "d" not in content.characters[:4]


def test_a_small_size_limit_omits_snapshots_and_characters_but_never_the_maps(trained):
    content = explore(trained, HARD_TEXT[:16], megabytes=0.1).content
    assert not content.targets and not content.snapshots
    assert content.maps.scores.shape == (2, 2, 16, 16)


def test_the_text_defaults_to_the_validation_split(trained, tmp_path):
    assert explorer.run(trained, output=tmp_path / "page.html") == 0
    shown = "".join(payload_in(tmp_path / "page.html")["characters"])
    assert len(shown) == 16 and shown in HARD_TEXT * 3


def test_an_existing_gradcheck_report_is_linked(browser, trained, tmp_path):
    explorer.run(trained, HARD_TEXT[:16], tmp_path / "page.html")
    assert payload_in(tmp_path / "page.html")["gradcheck"] is None
    report = trained / "gradcheck.html"
    report.write_text("<title>the check</title>")
    try:
        explorer.run(trained, HARD_TEXT[:16], tmp_path / "page.html")
        with opened(browser, tmp_path / "page.html") as tab:
            tab.locator("#gradcheck a").evaluate("link => { window.target = link.href }")
            assert tab.evaluate("window.target") == report.as_uri()
    finally:
        report.unlink()
    (tmp_path / "gradcheck.html").write_text("")
    explorer.run(trained, HARD_TEXT[:16], tmp_path / "page.html")
    assert payload_in(tmp_path / "page.html")["gradcheck"] == "gradcheck.html"


def test_the_page_works_in_a_notebook_iframe(browser, tmp_path):
    page = explore(
        GPT(GPTConfig.gpt2(vocabulary_size=4, block_size=8, layers=2, heads=2, dim=8)),
        "abcab",
        vocabulary="abcd",
    )
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{page._repr_html_()}", "utf-8")
    tab = browser.new_page()
    complaints = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(path.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(timeout=20_000)
    frame.locator("#grid button").first.press("ArrowDown")
    assert "Layer 1" in frame.locator("#map h3").inner_text()
    tab.close()
    assert complaints == []


def test_the_payload_cannot_end_its_element():
    page = explore(
        GPT(GPTConfig.gpt2(vocabulary_size=4, block_size=4, layers=1, heads=1, dim=4)),
        "</s<",
        vocabulary="</s>",
    )
    body = page.html.split('id="payload">')[1].split("</script>")[0]
    assert "<" not in body and ">" not in body and "&" not in body
    assert json.loads(body)["characters"] == ["<", "/", "s", "<"]
    assert 'srcdoc="&lt;!doctype' in page._repr_html_()


def test_stored_arrays_are_float32_to_the_bit(trained):
    content = explore(trained, HARD_TEXT[:16]).content
    from tinyattn.study.page import payload_of

    blob = payload_of(content)["steps"][-1]["scores"]
    planes = np.frombuffer(zlib.decompress(b64decode(blob["data"])), np.uint8).reshape(4, -1)
    stored = np.ascontiguousarray(planes.T).view("<f4").ravel()
    np.testing.assert_array_equal(stored, content.maps.scores[..., content.allowed].ravel())


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"model": "nowhere"}, (ValueError, FileNotFoundError), "nowhere"),
        ({"text": "ab€"}, ValueError, "€"),
        ({"text": "a" * 17}, ValueError, "17 characters"),
        ({"output": "no/such/folder/page.html"}, FileNotFoundError, "no directory"),
        ({"positions": "1,x"}, ValueError, "whole numbers"),
        ({"gradcheck": "report.html"}, FileNotFoundError, "tinyattn gradcheck --html"),
    ],
)
def test_errors_are_one_sentence(trained, tmp_path, monkeypatch, arguments, error, words):
    monkeypatch.chdir(tmp_path)
    given = {"model": str(trained), "text": HARD_TEXT[:8], "output": "page.html", **arguments}
    with pytest.raises(error, match=words) as caught:
        explorer.run(**given)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_tokens_of_several_characters_and_parts_of_characters_are_shown(random):
    pytest.importorskip("tokenizers")
    text = "the naïve the " * 20
    tokenizer = ta.data.BytePairTokenizer.from_text(text.replace("ï", "i"), 262)
    config = ta.models.GPTConfig(vocabulary_size=262, block_size=12, layers=1, heads=2, dim=8)
    model = ta.models.GPT(config)
    with pytest.raises(
        ValueError, match=r"tokens, and the model's block size is 12: .* first 12 tokens"
    ):
        ta.study.explore(model, text, vocabulary=tokenizer)
    payload = payload_of(ta.study.explore(model, text, vocabulary=tokenizer, cut=True).content)
    assert payload["unit"] == "token"
    assert 2 <= len(payload["characters"]) <= 12
    assert {"the", "\\xc3", "\\xaf"} <= set(payload["characters"])
    loss, probability = (payload["predictions"][0][key] for key in ("loss", "probability"))
    assert probability == pytest.approx(np.exp(-loss))
