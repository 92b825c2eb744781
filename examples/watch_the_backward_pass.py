"""Gradients through attention: rows of score gradients sum to 0, and a key without weight gets no gradient.

Article, section 4 ("阶段 3：Softmax 归一化"). Claim: the weights of a row are a fixed budget, so keys compete. In
backward, dS_j = P_j (dP_j - sum_k P_k dP_k): the gradients of a row of scores sum to 0, each is at most its weight
times the range of dP, and the loss at a position enters the last layer in its own row only.

Measured on a small GPT trained on Python's documentation: activations and their gradients are recorded with
``model.record``, and shown as maps, as a table of the behavior of each head, and as an HTML page.
"""

import numpy as np

import tinyattn as ta
from harness import example
from what_heads_learn import BLOCK, corpus, trained_gpt


def record_row_budgets(model, ids):
    """Weights, and gradients of the mean loss by weights and scores, each (layers, heads, length, length)."""
    with model.record("attention.scores", "attention.weights") as record:
        model.loss(ta.tensor(ids[None, :-1]), ta.tensor(ids[None, 1:])).backward()
    model.zero_grad()
    layers = range(model.config.layers)
    weights = [record[f"blocks.{layer}.attention.weights"] for layer in layers]
    scores = [record[f"blocks.{layer}.attention.scores"] for layer in layers]
    return (
        np.stack([one.value[0] for one in weights]),
        np.stack([one.gradient[0] for one in weights]),
        np.stack([one.gradient[0] for one in scores]),
    )


@example
def main(run):
    dataset = corpus()
    model, _ = trained_gpt(run.choose(150, 25))
    ids = dataset.validation[: BLOCK + 1].astype(np.int64)
    text = dataset.vocabulary.decode(ids[:-1])
    P, dP, dS = record_row_budgets(model, ids)

    sums = np.abs(dS.sum(axis=-1))
    print(f"rows of P sum to 1 within {np.abs(P.sum(axis=-1) - 1).max():.1e}")
    print(
        f"rows of dS sum to 0 within {sums.max():.1e}; the largest |dS| is {np.abs(dS).max():.1e}"
    )
    spread = np.where(P > 0, dP, np.nan)
    spread = np.nanmax(spread, axis=-1) - np.nanmin(spread, axis=-1)
    bound = P * spread[..., None]
    print(
        f"|dS| reaches {np.nanmax(np.abs(dS) / np.where(bound > 0, bound, np.nan)):.3f} of P times the range of dP"
    )

    seen = ta.study.observe(model, text, vocabulary=dataset.vocabulary)
    position = int(np.nanargmax(seen.losses))
    rows = np.flatnonzero(seen.gradient_of(position)[-1].any(axis=(0, 2)))
    print(
        f"the loss at position {position} enters the last layer in row {', '.join(map(str, rows))}\n"
    )
    print(ta.study.head_report(model, text, vocabulary=dataset.vocabulary))

    assert np.abs(P.sum(axis=-1) - 1).max() < 1e-5
    assert sums.max() < 1e-4 * np.abs(dS).max()
    assert (np.abs(dS) <= bound + 1e-9).all()
    assert rows.tolist() == [position]

    run.out.mkdir(parents=True, exist_ok=True)
    page = ta.study.explore(model, text, vocabulary=dataset.vocabulary)
    print(f"\npage: {page.save(run.out / f'{run.name}.html')}")
    maps = ta.study.attention_maps(model, text, "dS", vocabulary=dataset.vocabulary)
    run.save(maps.figure)


if __name__ == "__main__":
    main()
