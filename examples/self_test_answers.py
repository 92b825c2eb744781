"""Answers to the article's six questions, with measured numbers.

Article, section 13 ("自测题"). Each answer runs an experiment of the named script, which measures more, plots the
results, and says where the article is inaccurate.
"""

import textwrap

import numpy as np

import heads_at_equal_cost
import mask_before_softmax
import permutation
import scale_and_saturation
import separate_projections
import tinyattn as ta
from harness import BLUE, ORANGE, example
from tinyattn import nn


def why_three_projections(run):
    """1. 为什么 Self-Attention 需要三个独立的投影（Q、K、V），而不是只用一个？"""
    steps = run.choose(400, 150)
    right = {way: separate_projections.train(way, 2, steps)[1] for way in separate_projections.WAYS}
    assert right["separate"] > 0.9
    assert max(right["Q = K"], right["V = K"]) < 0.85
    text = f"""
    Searching, being found and passing on content are three tasks. With Q = K scores are symmetric: if a pronoun attends
    to a name, the name attends to the pronoun. With V = K, matching and content share one vector. On a task that needs
    both, with a head of 2 dimensions, the accuracy is {right["separate"]:.0%} with three projections,
    {right["Q = K"]:.0%} with Q = K and {right["V = K"]:.0%} with V = K."""
    return text, "accuracy", right


def what_the_scale_is_for(run):
    """2. √d_k 缩放解决的是什么问题？如果不缩放会怎样？"""
    d_k = 256
    spread = scale_and_saturation.dot_products(d_k, 5_000).std()
    with_scale, without = (scale_and_saturation.saturation(d_k, scaled) for scaled in (True, False))
    assert abs(spread / d_k**0.5 - 1) < 0.1
    assert without["gradient"] < 0.2 * with_scale["gradient"]
    text = f"""
    Scores of d_k = {d_k} dimensions have a standard deviation of {spread:.1f}, sqrt(d_k), and softmax saturates:
    the largest of 64 weights is {without["largest weight"]:.2f}, and the gradient of the scores
    {without["gradient"]:.3f}. Divided by sqrt(d_k), they are {with_scale["largest weight"]:.2f} and
    {with_scale["gradient"]:.2f}."""
    bars = {"divided": with_scale["gradient"], "not divided": without["gradient"]}
    return text, "gradient of the scores", bars


def why_the_mask_comes_first(run):
    """3. 为什么 causal mask 必须在 softmax 之前加？"""
    before, after = (mask_before_softmax.measure_leak(way) for way in ("before", "after"))
    assert abs(before["row sums"] - 1).max() < 1e-12 and before["change"].max() < 1e-12
    assert after["row sums"].min() < 0.9 and after["change"].max() > 1e-3
    text = f"""
    Weights masked after the softmax do not sum to 1: a row sums to {after["row sums"].min():.2f}. And the sum depends
    on the masked scores: another last token changes earlier outputs by up to {after["change"].max():.2f}. Masked
    before,
    rows sum to 1 and the change is {before["change"].max():.0f}."""
    bars = {"masked before": before["row sums"].min(), "after": after["row sums"].min()}
    return text, "smallest sum of a row", bars


def how_output_and_input_compare(run):
    """4. Self-Attention 的输出维度和输入维度有什么关系？"""
    length, dim, heads = 10, 64, 4
    ta.manual_seed(0)
    layer = nn.MultiHeadAttention(dim, heads)
    with ta.no_grad(), layer.record("weights", "value", "project") as record:
        out = layer(ta.ones((length, dim)))
    head = layer.head_dim
    assert out.shape == (length, dim) and record["weights"].shape == (heads, length, length)
    assert record["value"].shape == (length, heads * head)
    text = f"""
    There are as many outputs as inputs, {length}. Those of a head have the dimension of its values, here
    {dim} / {heads} = {head}, not d_model. Concatenated they have {record["value"].shape[1]} dimensions again, and so
    after W_O: {out.shape} in and out, as the residual connection requires."""
    return text, "dimensions", {"input": dim, "a head": head, "output": out.shape[-1]}


def what_permutation_does(run):
    """5. 为什么说 Self-Attention 是“置换不变”的？这带来了什么问题？"""
    blind, seeing = permutation.make_model("none"), permutation.make_model("learned")
    shift = permutation.distance_from_equivariance(blind)
    means = {
        name: permutation.distance_of_means(model)
        for name, model in {"no positions": blind, "learned positions": seeing}.items()
    }
    assert shift < 1e-12 and means["no positions"] < 1e-12
    assert means["learned positions"] > 1e-3
    text = f"""
    Scores and weighted sums do not depend on positions: permuted tokens give permuted outputs (strictly speaking,
    equivariance), up to {shift:.0e}. The mean outputs for "dog bites man" and "man bites dog" then differ by
    {means["no positions"]:.0e}; with learned positions by {means["learned positions"]:.0%}."""
    return text, "difference of two sentences", means


def whether_heads_cost_more(run):
    """6. Multi-Head Attention 的计算量比单头大吗？为什么？"""
    one, four = (heads_at_equal_cost.cost(heads) for heads in (1, 4))
    assert one[:2] == four[:2]
    text = f"""
    Hardly: {four[1]:,} multiplications with 4 heads and {one[1]:,} with one, and the same {one[0]:,} parameters, as 4
    heads have d/4 dimensions each. Only the softmax grows: {four[2]:,} exponentials instead of {one[2]:,}."""
    return text, "multiplications", {"1 head": one[1], "4 heads": four[1]}


ANSWERS = {
    why_three_projections: "separate_projections.py",
    what_the_scale_is_for: "scale_and_saturation.py",
    why_the_mask_comes_first: "mask_before_softmax.py",
    how_output_and_input_compare: "here",
    what_permutation_does: "permutation.py",
    whether_heads_cost_more: "heads_at_equal_cost.py",
}


@example
def main(run):
    figure, axes = run.figure(2, 3, height=2.4)
    for number, (panel, (answer, script)) in enumerate(zip(axes.flat, ANSWERS.items()), start=1):
        text, title, bars = answer(run)
        print(answer.__doc__)
        print(textwrap.indent(textwrap.fill(" ".join(text.split()), 90), "   "))
        print(f"   [{script}]\n")
        colors = [BLUE, *[ORANGE] * (len(bars) - 1)]
        panel.bar(list(bars), np.maximum(list(bars.values()), 0), 0.5, color=colors)
        panel.set_title(f"{number}. {title}")
    run.save(figure)


if __name__ == "__main__":
    main()
