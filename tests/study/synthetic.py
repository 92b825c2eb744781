"""Page contents without a model: random scores and gradients."""

import numpy as np

from tinyattn.study.page import Content, Maps, pack_target


def synthetic_content(
    layers=2, heads=2, text="hello, hello", *, seed=0, snapshots=0, targets=None, **more
):
    random = np.random.default_rng(seed)
    characters = list(text)
    length = len(characters)
    vocabulary = sorted(set(characters)) + ["z"]
    causal = np.tril(np.ones((length, length), bool))

    def maps(step, sharpness):
        scores = sharpness * random.normal(size=(layers, heads, length, length))
        # Heads with different behaviors: one attends to the neighbor, one to the first character.
        scores[0, 0] += 4 * np.eye(length, k=-1)
        scores[-1, -1, :, 0] += 3
        gradient = (
            random.normal(size=scores.shape) * 0.1 / (1 + np.arange(layers))[:, None, None, None]
        )
        return Maps(
            step,
            3.3 / sharpness,
            np.where(causal, scores, -np.inf).astype(np.float32),
            np.where(causal, gradient, 0).astype(np.float32),
        )

    logits = random.normal(size=(length, len(vocabulary)))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    losses = np.full(length, np.nan)
    for i in range(length - 1):
        losses[i] = -np.log(probabilities[i, vocabulary.index(characters[i + 1])])
    packed = {}
    for position in range(length - 1) if targets is None else targets:
        gradient = random.normal(size=(layers, heads, length, length)) * causal
        gradient[:, :, position + 1 :] = 0
        gradient[-1, :, :position] = 0
        packed[position] = pack_target(gradient.astype(np.float32), causal)
    places = ["embedding", *map(str, range(layers))]
    return Content(
        title=more.pop("title", "synthetic"),
        characters=characters,
        expected=[*characters[1:], None],
        maps=maps(2000, 1.5),
        head_dim=16,
        parameters=12345,
        losses=losses,
        probabilities=probabilities,
        vocabulary=vocabulary,
        norms={
            "places": places,
            "series": [
                {
                    "name": "residual stream",
                    "values": np.geomspace(1e-3, 1e-1, len(places)).tolist(),
                },
                {"name": "scores", "values": [0.0, *np.geomspace(1e-4, 1e-2, layers).tolist()]},
            ],
        },
        snapshots=[maps(500 * k, 0.3 + 0.3 * k) for k in range(snapshots)],
        targets=packed,
        curve=[
            {
                "step": s,
                "loss": 4.2 * np.exp(-s / 500) + 1.5 + 0.1 * np.sin(s),
                "val_loss": None if s % 250 else 4.3 * np.exp(-s / 500) + 1.6,
            }
            for s in range(0, 2001, 10)
        ],
        **more,
    )
