"""Attention weights are not an explanation: weights and the effect of hiding a character differ.

Article, section 11 ("常见误解澄清", the second). Claim: there is no reliable causal relation between attention
weights and what a model decides.

A GPT is trained on Python's documentation, and predicts the next character of several texts.

Measured, first: the weight of the last position on each character, averaged over all heads and layers as in common
visualizations, and the effect of masking that character in all attention layers: the Kullback-Leibler divergence of the
prediction. Their rank correlation in each text; and the most extreme pair of characters, where one has more weight than
the other and a fraction of its effect, and the other is in the quarter with the largest effects. (The weights are not
meaningless: on average, characters with more weight have more effect, since a character without weight has none. But
they do not reliably explain a single prediction.)

Second, for the last position: other weights for all heads, far from the model's own, for which the model computes the
same prediction. They exist if a head has more keys than dimensions: its output, a convex combination of values in
head_dim dimensions, is also one of head_dim + 1 of them (Carathéodory's theorem).

After S. Jain and B. C. Wallace, "Attention is not Explanation" (2019).
"""

import math

import numpy as np

import tinyattn as ta
from harness import BLUE, GRAY, ORANGE, example
from what_heads_learn import BLOCK, trained_gpt, validation_texts


def weights_and_effects(model, ids):
    """The weight of each character before the last, and the effect of masking it: two arrays (BLOCK - 1,)."""
    with ta.no_grad(), model.record("attention.weights") as record:
        own = ta.log_softmax(model(ids[None])[0, -1]).numpy()
    weights = np.mean([record[name].value[0, :, -1] for name in record], axis=(0, 1))
    # One copy of the text per masked character: (BLOCK - 1, heads, queries, keys).
    visible = ~np.eye(BLOCK, dtype=bool)[:-1, None, None, :]

    def hide(module, inputs, scores):
        return ta.where(visible, scores, -math.inf)

    handles = [block.attention.scores.register_forward_hook(hide) for block in model.blocks]
    with ta.no_grad():
        hidden = ta.log_softmax(model(np.tile(ids, (BLOCK - 1, 1)))[:, -1]).numpy()
    for handle in handles:
        handle.remove()
    return weights[:-1], (np.exp(own) * (own - hidden)).sum(axis=-1)


def rank_correlation(one, other):
    """Spearman's rank correlation coefficient."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return np.corrcoef(*ranks)[0, 1]


def most_blatant_pair(weights, effects):
    """Characters i with more weight and less effect than j, which is in the quarter with the largest effects.

    Returns the ratio of the weights of i and j, the ratio of the effects of j and i, and (i, j).
    """
    of_weights = weights[:, None] / weights[None, :]
    of_effects = effects[None, :] / np.maximum(effects[:, None], 1e-12)
    matters = effects >= np.quantile(effects, 0.75)
    both = np.where(matters, np.minimum(of_weights, of_effects), 0)
    i, j = np.unravel_index(both.argmax(), both.shape)
    return of_weights[i, j], of_effects[i, j], (i, j)


def other_weights(weights, values):
    """Sparse weights (keys,) with the same weighted sum of ``values`` (keys, head_dim), avoiding the largest weight."""
    weights = weights.astype(np.float64).copy()
    rows = np.concatenate([values, np.ones((len(values), 1))], axis=1).astype(np.float64)
    while True:
        support = np.flatnonzero(weights > 1e-12)
        # Directions that change neither the weighted sum of the values nor the sum of the weights.
        _, singular, directions = np.linalg.svd(rows[support].T)
        null = directions[(singular > 1e-9).sum() :]
        if len(null) == 0:
            return weights
        largest = weights[support].argmax()
        direction = -null.T @ null[:, largest]  # away from the largest weight
        if np.abs(direction).max() < 1e-9:
            direction = null[0]
        direction /= np.abs(direction).max()
        falling = direction < -1e-9  # not empty, because the weights sum to 1
        step = (weights[support][falling] / -direction[falling]).min()
        weights[support] += step * direction
        weights[weights < 1e-12] = 0


def replace_last_rows(model, ids, choose):
    """The prediction with ``choose(weights, values)`` as the weights of each head for the last position.

    Returns the probabilities, the distances of these weights from the heads' own (between 0 and 1), and both weights.
    """
    distances, shown = [], []
    values = {}
    handles = []

    def keep_values(attention):
        def hook(module, inputs, output):
            heads = output.numpy()[0].reshape(BLOCK, attention.heads, attention.head_dim)
            values[id(attention)] = heads.swapaxes(0, 1)

        return hook

    def replace(attention):
        def hook(module, inputs, output):
            weights = output.numpy()
            for head in range(attention.heads):
                own = weights[0, head, -1].copy()
                other = choose(own, values[id(attention)][head])
                distances.append(0.5 * np.abs(own - other).sum())
                shown.append((own, other))
                weights[0, head, -1] = other
            return ta.tensor(weights)

        return hook

    for block in model.blocks:
        attention = block.attention
        handles.append(attention.value.register_forward_hook(keep_values(attention)))
        handles.append(attention.weights.register_forward_hook(replace(attention)))
    with ta.no_grad():
        prediction = ta.softmax(model(ids[None])[0, -1]).numpy()
    for handle in handles:
        handle.remove()
    return prediction, np.array(distances), shown


@example
def main(run):
    model, loss = trained_gpt(run.choose(400, 80))
    print(f"a GPT trained to a loss of {loss:.2f} nats a character\n")
    examples = validation_texts(run.choose(24, 6))
    pairs = [weights_and_effects(model, ids) for ids in examples]
    correlations = np.array([rank_correlation(*pair) for pair in pairs])
    blatant = [most_blatant_pair(*pair) for pair in pairs]
    worst = int(np.argmax([min(pair[:2]) for pair in blatant]))
    print(
        f"rank correlation of weight and effect in {len(pairs)} texts: mean {correlations.mean():.2f}, "
        f"from {correlations.min():.2f} to {correlations.max():.2f}"
    )
    print(
        f"one character has {blatant[worst][0]:.1f} times the weight of another, "
        f"and 1/{blatant[worst][1]:.1f} of its effect"
    )

    ids = examples[worst]
    with ta.no_grad():
        own = ta.softmax(model(ids[None])[0, -1]).numpy()
    prediction, distances, shown = replace_last_rows(model, ids, other_weights)
    change = np.abs(prediction - own).max()
    mirrored, _, _ = replace_last_rows(model, ids, lambda weights, values: weights[::-1])
    control = np.abs(mirrored - own).max()
    print(
        f"other weights in all {len(distances)} heads, {distances.mean():.0%} of each row's weight moved elsewhere: "
        f"no probability changes by more than {change:.1e}\n"
        f"(the heads' own weights in reverse order, for comparison: by {control:.1e})"
    )

    assert correlations.mean() > 0.2
    assert correlations.min() < 0.9
    assert min(blatant[worst][:2]) > 1.5
    assert distances.mean() > 0.3
    assert change < 1e-5 < 1e-3 < control

    figure, (left, right) = run.figure(1, 2, width=4.8)
    weights, effects = pairs[worst]
    left.loglog(weights, effects, "o", color=GRAY, markersize=4)
    i, j = blatant[worst][2]
    for place, color, name in (
        (i, ORANGE, "more weight, less effect"),
        (j, BLUE, "less weight, more effect"),
    ):
        left.loglog(weights[place], effects[place], "o", color=color, markersize=8, label=name)
    left.set(
        title=f"characters of one text, rank correlation {correlations[worst]:.2f}",
        xlabel="mean attention weight",
        ylabel="effect of hiding it, nats",
    )
    left.tick_params(axis="x", which="minor", labelbottom=False)
    left.legend(fontsize=8)
    head = int(distances.argmax())
    for values, color, name, shift in (
        (shown[head][0], BLUE, "the model's own", -0.2),
        (shown[head][1], ORANGE, "others", 0.2),
    ):
        right.bar(np.arange(BLOCK) + shift, values, 0.4, color=color, label=name)
    right.set(
        title="two rows of weights of a head, the same output", xlabel="position", ylabel="weight"
    )
    right.legend()
    run.save(figure)


if __name__ == "__main__":
    main()
