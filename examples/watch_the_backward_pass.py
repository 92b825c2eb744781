"""What comes back through attention: the budget of a row holds for gradients too, and who gets no weight gets no say.

Article, section 4 ("阶段 3：Softmax 归一化"). Claim: the weights of a row are a fixed budget, so that attention is a
competition. Backward this reads dS_j = P_j (dP_j - sum_k P_k dP_k): what one score gains the others of its row lose,
no score gets more than its weight times the spread of dP, and a character's loss comes into the last layer in its own
row only.

Measured on a small GPT after some steps on Python's documentation: activations and their gradients are recorded with
``model.record``, and seen as maps, as a table of what each head does, and as a page for the browser.
"""

import numpy as np

import tinyattn as ta
from harness import example, fit
from tinyattn.data import Batches, CharDataset
from tinyattn.models import GPT, GPTConfig

BLOCK = 48


def train(dataset, steps):
    """A GPT of two layers of four heads after ``steps`` steps."""
    ta.manual_seed(0)
    config = GPTConfig.gpt2(
        vocabulary_size=len(dataset.vocabulary),
        block_size=BLOCK,
        layers=2,
        heads=4,
        dim=64,
        positions="rotary",
        activation="gelu",
    )
    model = GPT(config)
    batches = Batches(dataset.train, BLOCK, 8, ta.backend.Random(0))
    fit(
        model.parameters(),
        lambda: model.loss(*map(ta.tensor, batches.draw())),
        steps,
        learning_rate=4e-3,
    )
    return model


def record_row_budgets(model, ids):
    """Weights, and gradients of weights and scores, (layers, heads, length, length), of the mean loss of a text."""
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
    dataset = CharDataset.load("pydoc", BLOCK)
    model = train(dataset, run.choose(150, 25))
    ids = dataset.validation[: BLOCK + 1].astype(np.int64)
    text = dataset.vocabulary.decode(ids[:-1])
    P, dP, dS = record_row_budgets(model, ids)

    sums = np.abs(dS.sum(axis=-1))
    print(f"rows of P add up to 1 within {np.abs(P.sum(axis=-1) - 1).max():.1e}")
    print(
        f"rows of dS add up to 0 within {sums.max():.1e}; the largest |dS| is {np.abs(dS).max():.1e}"
    )
    spread = np.where(P > 0, dP, np.nan)
    spread = np.nanmax(spread, axis=-1) - np.nanmin(spread, axis=-1)
    bound = P * spread[..., None]
    print(
        f"|dS| reaches {np.nanmax(np.abs(dS) / np.where(bound > 0, bound, np.nan)):.3f} of P times the spread of dP"
    )

    seen = ta.study.observe(model, text, vocabulary=dataset.vocabulary)
    position = int(np.nanargmax(seen.losses))
    rows = np.flatnonzero(seen.gradient_of(position)[-1].any(axis=(0, 2)))
    print(
        f"the loss at position {position} comes into the last layer in row {', '.join(map(str, rows))}\n"
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
