"""The HTML representation of a module in notebooks: a tree of its submodules."""

import tinyattn as ta
from tinyattn import nn


def test_every_part_is_there_with_its_settings_and_parameters():
    page = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.25))._repr_html_()
    assert "Sequential(), 9 parameters" in page
    assert "<b>0</b> Linear(2, 3), 9 parameters" in page and "<b>1</b> Dropout(0.25)" in page
    assert page.count("<details") == page.count("</details>") == 1


def test_neighbors_of_the_same_repr_are_merged():
    config = ta.models.GPTConfig(vocabulary_size=65, block_size=8, layers=12, heads=2, dim=8)
    page = ta.models.GPT(config)._repr_html_()
    assert page.count("TransformerBlock(") == 1 and "<b>0 to 11</b>" in page
    assert len(page) < 10_000


def test_text_is_escaped_and_the_colors_are_those_of_the_page():
    class Layer(nn.Module):
        def extra_repr(self):
            return "<b onclick='x'>&"

    page = nn.Sequential(Layer())._repr_html_()
    assert "Layer(&lt;b onclick=&#x27;x&#x27;&gt;&amp;)" in page
    assert "color:inherit" in page and "#fff" not in page
