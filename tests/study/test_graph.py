"""``draw_graph``: the operations, shapes and values of a graph, with repeated blocks drawn once."""

import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tinyattn as ta

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def expression():
    x = ta.tensor([[1.0, 2.0]], requires_grad=True)
    w = ta.tensor([[3.0], [4.0]], requires_grad=True)
    return x, w, ta.tanh(x @ w * 0.1).sum()


def test_draw_graph_shows_operations_shapes_values_and_gradients(tmp_path):
    pytest.importorskip("grandalf", reason="grandalf is not installed")
    x, w, loss = expression()
    picture = ta.study.draw_graph(loss, names={"x": x, "w": w})
    svg = picture._repr_svg_()
    texts = {
        node.text for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"x", "w", "matmul", "mul", "tanh", "sum"} <= texts
    assert "value 11.000" in " ".join(texts).replace("[", "").replace("]", "")
    slope = 0.1 * (1 - np.tanh(1.1) ** 2)
    assert f"grad  [{3 * slope:.3f}  {4 * slope:.3f}]" in texts, "of x"
    assert f"value {np.tanh(1.1):.3f}" in texts and "grad  1.000" in texts
    assert x.grad is None
    loss.backward()
    assert x.grad is not None, "the graph is still whole"
    picture.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text("utf-8") == picture._repr_svg_()


def test_draw_graph_refuses_missing_freed_and_large_graphs():
    pytest.importorskip("grandalf", reason="grandalf is not installed")
    x, _, loss = expression()
    with pytest.raises(ValueError, match="requires_grad=True"):
        ta.study.draw_graph(x.detach())
    loss.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        ta.study.draw_graph(loss)
    for _ in range(300):
        x = x * 1.01
    with pytest.raises(ValueError, match="301 operations are too many to draw"):
        ta.study.draw_graph(x.sum())


def graph_of_a_gpt(layers, **options):
    config = ta.models.GPTConfig(
        vocabulary_size=65, block_size=64, layers=layers, heads=4, dim=128, **options
    )
    model = ta.models.GPT(config)
    ids = ta.tensor([[1, 2, 3, 4, 5, 6, 7]])
    return model, model.loss(ids[:, :-1], ids[:, 1:])


def texts_of(picture):
    nodes = ElementTree.fromstring(picture._repr_svg_()).iter("{http://www.w3.org/2000/svg}text")
    return [node.text for node in nodes]


@pytest.mark.parametrize("layers, title", [(2, "blocks.1"), (4, "blocks.1 to blocks.3")])
def test_repeated_blocks_of_a_model_are_drawn_once_with_its_names(layers, title):
    pytest.importorskip("grandalf", reason="grandalf is not installed")
    model, loss = graph_of_a_gpt(layers, previous_embedding=False)
    picture = ta.study.draw_graph(loss, model)
    texts = texts_of(picture)
    named = {name for name, _ in model.named_parameters()}
    shown = " ".join(texts)
    for name in named:
        repeated = name.startswith(("blocks.1", "blocks.2", "blocks.3"))
        assert (f"{name} (" in shown or name in texts) != repeated, name
    assert title in texts and f"like blocks.0, {20 * (layers - 1)} operations" in texts
    assert texts.count("attention") == 1 and "cross_entropy" in texts
    assert "input" not in texts and "parameter" not in shown
    width, height = picture.figure.get_size_inches()
    assert width < 18 and height < 20


def test_blocks_that_differ_are_all_drawn():
    pytest.importorskip("grandalf", reason="grandalf is not installed")
    layers = ta.nn.ModuleList([ta.nn.Linear(2, 2, bias=False), ta.nn.Linear(2, 3, bias=False)])
    x = ta.ones((1, 2))
    texts = texts_of(
        ta.study.draw_graph(
            layers[1](layers[0](x)).sum(),
            {"a.0.weight": layers[0].weight, "a.1.weight": layers[1].weight},
        )
    )
    assert texts.count("linear") == 2 and not any("like" in text for text in texts)


def test_a_picture_that_is_too_large_is_refused_with_advice():
    pytest.importorskip("grandalf", reason="grandalf is not installed")
    _, loss = graph_of_a_gpt(12)
    with pytest.raises(ValueError, match=r"too many .*draw_graph\(loss, model\)"):
        ta.study.draw_graph(loss)
    weights = [ta.tensor(np.full((3, 3), 123456.7), requires_grad=True) for _ in range(95)]
    with pytest.raises(ValueError, match=r"a picture of \d+ x \d+ inches is too large to draw"):
        ta.study.draw_graph(ta.stack([ta.square(weight) for weight in weights]).sum())
    _, loss = graph_of_a_gpt(1)
    assert "reads parameter (128, 512)" in texts_of(ta.study.draw_graph(loss))


@pytest.mark.parametrize("package", ["matplotlib", "grandalf"])
def test_a_missing_package_is_asked_for_by_its_name(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    _, _, loss = expression()
    with pytest.raises(
        ImportError, match=rf"draw_graph needs the package {package}: pip install {package}"
    ):
        ta.study.draw_graph(loss)
