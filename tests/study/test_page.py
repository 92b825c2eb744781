"""The explorer page in a browser, with synthetic data."""

import itertools
import re

import numpy as np
import pytest

from tests.study.browser import opened, running_browser, wait_until
from tests.study.synthetic import synthetic_content
from tinyattn.study.page import MEGABYTE, render, softmax_rows

HARD_TEXT = (
    "a\t\"b\" 'c'\n</script><script>window.broken=1</script>&amp;<!--😀e\u0301\u202e\u200d\u2028x"
)
OVERLAYS = ["P", "S", "dP", "dS", "PdP"]


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    content = synthetic_content(snapshots=2)
    path = tmp_path_factory.mktemp("page") / "small page.html"
    path.write_text(render(content), "utf-8")
    return content, path


def mathematics(scores, gradient):
    """P, S, dL/dP, dL/dS and P*dL/dP of one head, in float64."""
    P, dP = softmax_rows(scores), gradient.astype(np.float64)
    dS = P * (dP - (P * dP).sum(axis=-1, keepdims=True))
    return {"P": P, "S": scores, "dP": dP, "dS": dS, "PdP": P * dP}


def maps_on_page(tab, layer, head, loss="all", step=None):
    """The overlays computed by the page, NaN for masked cells."""
    script = """([view, overlays]) => Object.fromEntries(overlays.map(
        (key) => [key, Array.from(tinyattn.page.map(view, key), (x) => Number.isNaN(x) ? null : x)]))"""
    step = tab.evaluate("tinyattn.page.own") if step is None else step
    view = {"layer": layer, "head": head, "loss": loss, "step": step}
    tab.evaluate("([step, loss]) => tinyattn.page.load(step, loss)", [step, loss])
    found = tab.evaluate(script, [view, OVERLAYS])
    length = tab.evaluate("tinyattn.page.length")
    return {
        key: np.array([np.nan if x is None else x for x in values]).reshape(length, length)
        for key, values in found.items()
    }


def center_of_cell(tab, row, column):
    box = tab.locator("#map .plane").bounding_box()
    length = tab.evaluate("tinyattn.page.length")
    return (
        box["x"] + (column + 0.5) * box["width"] / length,
        box["y"] + (row + 0.5) * box["height"] / length,
    )


def table_of_row(tab):
    script = """() => Object.fromEntries(["S", "P", "dP", "centered", "dS", "PdP"].map((column) => [column,
        Array.from(document.querySelectorAll(`#row-table td[data-column=${column}]`),
            (cell) => Number(cell.textContent.replaceAll("−", "-")))]))"""
    return {key: np.array(values) for key, values in tab.evaluate(script).items()}


def test_every_map_on_the_page_equals_that_of_python(browser, small):
    content, path = small
    causal = content.allowed
    with opened(browser, path) as tab:
        for layer, head in np.ndindex(2, 2):
            expected = mathematics(
                content.maps.scores[layer, head], content.maps.gradient[layer, head]
            )
            found = maps_on_page(tab, layer, head)
            for key in OVERLAYS:
                np.testing.assert_allclose(found[key][causal], expected[key][causal], atol=1e-12)
                assert np.isnan(found[key][~causal]).all()
            np.testing.assert_allclose(np.nansum(found["P"], axis=1), 1, atol=1e-12)
            np.testing.assert_allclose(np.nansum(found["dS"], axis=1), 0, atol=1e-12)


def test_the_maps_of_a_snapshot_have_sixteen_bits(browser, small):
    content, path = small
    causal = content.allowed
    with opened(browser, path) as tab:
        found = maps_on_page(tab, 1, 0, step=0)
        scores = content.snapshots[0].scores[1, 0]
        span = np.ptp(content.snapshots[0].scores[1, 0][causal])
        np.testing.assert_allclose(found["S"][causal], scores[causal], atol=span / 65534)


def test_hovering_highlights_a_row_and_its_characters_and_a_click_locks_it(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        tab.mouse.move(*center_of_cell(tab, 7, 3))
        assert tab.locator("#character-7").get_attribute("class") == "query"
        assert tab.locator("#character-3").get_attribute("class") == "key"
        assert "query 7 (h), key 3 (l)" in tab.locator("#map .readout").inner_text()
        tab.mouse.click(*center_of_cell(tab, 7, 3))
        tab.mouse.move(2, 2)
        assert "locked" in tab.locator("#character-7").get_attribute("class")
        assert "row 7 (h)" in tab.locator("#row h3").inner_text()
        assert tab.locator("#row-table tbody tr").count() == 8
        tab.mouse.click(*center_of_cell(tab, 7, 0))
        assert tab.evaluate("tinyattn.store.get().row") is None


def test_keys_move_through_heads_overlays_rows_and_losses(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        state = lambda: tab.evaluate("tinyattn.store.get()")  # noqa: E731
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowDown")
        assert (state()["layer"], state()["head"]) == (1, 1)
        tab.keyboard.press("ArrowRight")
        assert state()["head"] == 0
        for press, overlay in [("o", "S"), ("4", "dS"), ("o", "PdP"), ("o", "P")]:
            tab.keyboard.press(press)
            assert state()["overlay"] == overlay
        tab.keyboard.press("Escape")
        assert state()["row"] is None
        for press, row in [("]", 0), ("]", 1), ("[", 0)]:
            tab.keyboard.press(press)
            assert state()["row"] == row
        tab.keyboard.press("l")
        wait_until(tab, "tinyattn.store.get().loss === 0")
        tab.keyboard.press(",")
        wait_until(tab, "tinyattn.store.get().step === 1")
        assert state()["loss"] == "all", "a snapshot has no gradients of single characters"


def test_the_keyboard_alone_reaches_everything(browser, small):
    """Tab visits each control, and the arrow keys move the locked row in the text."""
    _, path = small
    with opened(browser, path) as tab:
        seen = []
        for _ in range(80):
            tab.keyboard.press("Tab")
            seen.append(
                tab.evaluate(
                    "document.activeElement.id || document.activeElement.getAttribute('role')"
                    " || document.activeElement.tagName"
                )
            )
            if seen[-1] == "characters":
                tab.keyboard.press("Home")
                tab.keyboard.press("ArrowRight")
                assert tab.evaluate("tinyattn.store.get().row") == 1
        for control in ["theme", "overlay-P", "loss", "color", "step", "characters", "sort"]:
            assert control in seen, control
        assert "slider" in seen, "the scores of the row"
        assert {"head-size", "power"} <= set(seen)


def test_the_hash_restores_a_view(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        for key in ("ArrowDown", "ArrowRight", "c"):
            tab.keyboard.press(key)
        tab.keyboard.press("4")
        tab.select_option("#loss", "5")
        wait_until(tab, "tinyattn.store.get().loss === 5")
        tab.mouse.click(*center_of_cell(tab, 5, 2))
        fragment = tab.evaluate("location.hash")
        before = tab.evaluate("tinyattn.store.get()")
        table = table_of_row(tab)
    assert (
        before["row"] == 5
        and before["overlay"] == "dS"
        and (before["layer"], before["head"]) == (1, 1)
    )
    assert before["color"] == "all"
    with opened(browser, path, fragment) as tab:
        assert tab.evaluate("tinyattn.store.get()") == before
        for column, values in table_of_row(tab).items():
            np.testing.assert_array_equal(values, table[column])
    with opened(browser, path, "#layer=9&head=x&overlay=none&row=99&loss=77&step=1") as tab:
        state = tab.evaluate("tinyattn.store.get()")
        assert (state["layer"], state["head"], state["overlay"], state["loss"]) == (
            0,
            0,
            "P",
            "all",
        )


def test_the_switch_of_overlays_repaints_map_thumbnails_and_text(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        picture = """() => [document.querySelector(".plane canvas").toDataURL(),
            document.querySelector("#grid canvas").toDataURL(),
            document.querySelector("#character-3").style.background]"""
        seen = []
        for overlay in OVERLAYS:
            tab.locator(f"label[for=overlay-{overlay}]").click()
            seen.append(tab.evaluate(picture))
        for one, other in itertools.pairwise(seen):
            assert all(a != b for a, b in zip(one, other))


def test_a_click_on_an_overlay_reaches_its_label_with_any_font(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        tab.add_style_tag(
            content=".segments label { font-size: 1px !important; padding: 4px 9px !important }"
        )
        for overlay in OVERLAYS:
            tab.locator(f"label[for=overlay-{overlay}]").click(timeout=5000)
            assert tab.locator(f"#overlay-{overlay}").is_checked()


def test_the_gradients_of_a_dragged_score_equal_those_of_python(browser, small):
    content, path = small
    row, key = 9, 4
    with opened(browser, path, f"#layer=1&head=0&row={row}") as tab:
        before = table_of_row(tab)
        np.testing.assert_allclose(
            before["dS"],
            mathematics(content.maps.scores[1, 0], content.maps.gradient[1, 0])["dS"][
                row, : row + 1
            ],
            rtol=1e-6,
            atol=1e-9,
        )
        handle = tab.locator(f".handle[data-key='{key}']")
        handle.scroll_into_view_if_needed()
        box = handle.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x, y - 14, steps=4)
        tab.mouse.up()
        after = table_of_row(tab)
        moved = np.flatnonzero(after["S"] != before["S"])
        assert moved.tolist() == [key] and after["S"][key] > before["S"][key]
        expected = mathematics(after["S"], before["dP"])
        for column in ["P", "dS", "PdP"]:
            np.testing.assert_allclose(after[column], expected[column], rtol=1e-5, atol=1e-6)
        # To the full precision of what the page computes with, not of what it prints.
        exact = tab.evaluate(
            "() => Object.fromEntries(['S', 'dS'].map((c) => [c, Array.from(document.querySelectorAll("
            "`#row-table td[data-column=${c}]`), (cell) => Number(cell.dataset.value))]))"
        )
        g = content.maps.gradient[1, 0, row, : row + 1]
        np.testing.assert_allclose(
            exact["dS"], mathematics(np.array(exact["S"]), g)["dS"], rtol=1e-12, atol=1e-15
        )
        value = lambda name: float(tab.locator("#" + name).get_attribute("data-value"))  # noqa: E731
        s0 = content.maps.scores[1, 0, row, : row + 1].astype(np.float64)
        original = mathematics(s0, g)
        change = (mathematics(np.array(exact["S"]), g)["PdP"] - original["PdP"]).sum()
        assert value("sum-p") == pytest.approx(1, abs=1e-12)
        assert value("sum-ds") == pytest.approx(0, abs=1e-12)
        assert value("exact") == pytest.approx(change, rel=1e-9)
        assert value("linear") == pytest.approx(
            original["dS"] @ (np.array(exact["S"]) - s0), rel=1e-9
        )
        tab.locator("#reset").click()
        np.testing.assert_array_equal(table_of_row(tab)["S"], before["S"])


def test_the_arrow_keys_change_a_score_as_dragging_does(browser, small):
    _, path = small
    with opened(browser, path, "#row=6") as tab:
        before = table_of_row(tab)["S"]
        tab.locator("#row .slider").focus()
        tab.keyboard.press("PageUp")
        changed = table_of_row(tab)["S"] - before
        assert np.count_nonzero(changed) == 1
        assert changed.max() == pytest.approx(1, abs=1e-5)
        assert tab.evaluate("tinyattn.store.get().head") == 0, "the map's own keys stay out of it"


def test_the_slider_over_training_changes_maps_and_head_cards(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        shares = lambda: tab.locator("#cards .value").all_inner_texts()  # noqa: E731
        last = shares()
        tab.locator("#step").focus()
        tab.keyboard.press("Home")
        wait_until(tab, "tinyattn.store.get().step === 0")
        assert shares() != last
        assert "step=0" in tab.evaluate("location.hash")


def test_states_are_sorted_by_step(browser, tmp_path):
    content = synthetic_content(snapshots=3)
    content.snapshots[2].step = 3000  # the best state may be older than the last snapshot
    path = tmp_path / "page.html"
    path.write_text(render(content), "utf-8")
    with opened(browser, path) as tab:
        assert tab.evaluate("tinyattn.page.steps.map((one) => one.step)") == [0, 500, 2000, 3000]
        assert tab.evaluate("tinyattn.store.get().step") == tab.evaluate("tinyattn.page.own") == 2
        tab.keyboard.press(".")
        wait_until(tab, "tinyattn.store.get().step === 3")


def test_escape_closes_the_list_of_keys_first_and_unlocks_the_row_next(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        tab.keyboard.press("]")
        row = tab.evaluate("tinyattn.store.get().row")
        assert row is not None
        tab.locator("#keys summary").click()
        assert tab.locator("#keys").get_attribute("open") is not None
        tab.keyboard.press("Escape")
        assert tab.locator("#keys").get_attribute("open") is None
        assert tab.evaluate("tinyattn.store.get().row") == row, "it stays locked"
        assert tab.evaluate("document.activeElement.tagName") == "SUMMARY"
        tab.keyboard.press("Escape")
        assert tab.evaluate("tinyattn.store.get().row") is None


def test_a_head_card_gives_the_reason_of_its_classification(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        for card in tab.locator("#cards li").all():
            kind = card.locator(".kind").inner_text()
            reason = card.locator(".reason").inner_text()
            assert reason.startswith("closest: " if kind == "mixed" else kind)
            share, needed = re.findall(r"([0-9.]+) %", reason)
            assert (float(share) >= float(needed)) == (kind != "mixed")
            shown = [
                f"{v} from {n}"
                for v, n in zip(
                    card.locator(".value").all_inner_texts(),
                    [
                        text.removeprefix("from ")
                        for text in card.locator(".needed").all_inner_texts()
                    ],
                )
            ]
            assert f"{share} % from {needed} %" in shown


def test_a_behavior_that_cannot_be_measured_has_a_reason(browser, small):
    content, path = small
    assert len(content.characters) < 16
    with opened(browser, path) as tab:
        card = tab.locator("#cards li").first
        assert "no token can attend to one 16 or more away" in card.inner_text()
        tab.locator("#heads summary").click()
        definitions = tab.locator("#heads .definitions").inner_text()
        assert "Not on this text: no token can attend to one 16 or more away." in definitions
        assert "–" not in card.inner_text()


def test_head_cards_sort_by_a_share(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        assert tab.locator("#cards li").first.get_attribute("data-head") == "0.0"
        tab.select_option("#sort", "first")
        order = tab.locator("#cards li").evaluate_all("all => all.map((li) => li.dataset.head)")
        assert order[0] == "1.1", "the synthetic head that looks at the first token"
        shares = tab.locator("#cards [data-share=first]").all_inner_texts()
        assert [float(text[:-2]) for text in shares] == sorted(
            (float(text[:-2]) for text in shares), reverse=True
        )


def test_the_laboratory_saturates_without_the_scale_and_not_with_it(browser, small):
    _, path = small
    with opened(browser, path) as tab:
        read = lambda: tab.evaluate(  # noqa: E731
            "() => Array.from(document.querySelectorAll('#laboratory-results output'), (o) => Number(o.textContent))"
        )
        tab.locator("#head-size").focus()
        tab.keyboard.press("End")
        deviation, entropy, largest, _ = read()
        assert deviation > 20 and entropy < 0.4 and largest > 0.85
        tab.get_by_role("button", name="Divide by √d").click()
        scaled = read()
        assert scaled[0] == pytest.approx(1, abs=0.1) and scaled[1] > 2.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_axe_finds_no_violations(browser, small, theme, width):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    _, path = small
    with opened(
        browser, path, color_scheme=theme, viewport={"width": width, "height": 800}, bypass_csp=True
    ) as tab:
        tab.locator("#heads summary").click()
        results = axe.Axe().run(tab)
        assert results.violations_count == 0, results.generate_report()
        overflow = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, "the page scrolls sideways"


def test_the_theme_follows_the_system_and_the_button(browser, small):
    _, path = small
    with opened(browser, path, color_scheme="dark") as tab:
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        tab.locator("#theme").click()
        assert tab.evaluate("document.documentElement.dataset.theme") == "light"
        assert "theme=light" in tab.evaluate("location.hash")


def test_text_is_neither_executed_nor_garbled(browser, tmp_path):
    path = tmp_path / "hard.html"
    title = "</script ><img src=x onerror=alert(1)>"
    content = synthetic_content(2, 2, HARD_TEXT, title=title)
    path.write_text(render(content), "utf-8")
    with opened(browser, path) as tab:
        assert tab.evaluate("window.broken") is None
        assert tab.evaluate("tinyattn.page.characters") == list(HARD_TEXT)
        assert tab.locator("#characters [role=option]").count() == len(HARD_TEXT)
        assert tab.title() == f"{title} - tinyattn"
        assert tab.locator("img").count() == 0
        shown = tab.locator("#characters [role=option]").all_inner_texts()
        for character, sign in [
            ("\t", "⇥"), ("\n", "⏎"), (" ", "␣"), ("<", "<"), ("😀", "😀"), ("\u0301", "◌\u0301"),
            ("\u202e", "U+202E"), ("\u200d", "ZWJ"), ("\u2028", "U+2028"), ('"', '"'),
        ]:  # fmt: skip
            assert shown[HARD_TEXT.index(character)] == sign


def test_six_layers_of_six_heads_on_128_characters_fit_in_four_megabytes(browser, tmp_path):
    path = tmp_path / "large.html"
    content = synthetic_content(6, 6, ("to be or not to be " * 7)[:128], targets=[20])
    path.write_text(render(content), "utf-8")
    assert path.stat().st_size < 4 * MEGABYTE
    with opened(browser, path) as tab:
        found = maps_on_page(tab, 5, 5)
        expected = mathematics(content.maps.scores[5, 5], content.maps.gradient[5, 5])
        for key in OVERLAYS:
            np.testing.assert_allclose(
                found[key][content.allowed], expected[key][content.allowed], atol=1e-12
            )


def test_twelve_layers_of_twelve_heads_on_64_tokens_fit_in_six_megabytes(browser, tmp_path):
    tokens = [
        "the",
        " cat",
        "\\xc3",
        "\\xaf",
        "\n\n",
        " ",
        "\u0301x",
        "<|endoftext|>",
        *["word"] * 56,
    ]
    content = synthetic_content(12, 12, tokens, unit="token", targets=[0, 20, 40, 62])
    path = tmp_path / "explorer.html"
    page = render(content)
    assert len(page) < 6 * MEGABYTE
    path.write_text(page, encoding="utf-8")
    with opened(browser, path, viewport={"width": 1280, "height": 900}) as tab:
        assert "64 tokens, mean loss" in tab.inner_text("#summary")
        assert tab.locator("#grid button").count() == 144
        shown = tab.locator("#characters [role=option]").all_inner_texts()
        assert shown[:8] == [
            "the",
            "␣cat",
            "\\xc3",
            "\\xaf",
            "⏎⏎",
            "␣",
            "◌\u0301x",
            "<|endoftext|>",
        ]
        labels = tab.locator(".labels.rows span").all_inner_texts()
        assert labels[:2] == ["the", "␣cat"] and labels[7] == "<|endo…"
        assert tab.inner_text("#predictions-title") == "Predicted tokens"
        # All cards are in a region that scrolls, so that the sections after it stay near.
        region = tab.locator("#heads .scroll")
        assert region.locator("li").count() == 144
        assert region.evaluate("node => node.scrollHeight > 4 * node.clientHeight")


def test_the_gradient_of_one_character_s_loss_is_stored_exactly(browser, tmp_path):
    content = synthetic_content(targets=[])
    random = np.random.default_rng(5)
    gradient = random.normal(size=content.maps.gradient.shape).astype(np.float32) * content.allowed
    gradient[:, :, 5:] = 0
    gradient[1, :, :4] = 0  # the last layer: row 4 only
    from tinyattn.study.page import pack_target

    content.targets = {4: pack_target(gradient, content.allowed)}
    path = tmp_path / "target.html"
    path.write_text(render(content), "utf-8")
    with opened(browser, path) as tab:
        for layer, head in np.ndindex(2, 2):
            found = maps_on_page(tab, layer, head, loss=4)["dP"]
            np.testing.assert_array_equal(
                found[content.allowed], gradient[layer, head][content.allowed]
            )
