"""Without positions, attention is permutation-equivariant; position encodings break the symmetry.

Article, section 11 ("常见误解澄清", the last one), and question 5 of section 13. Claim: if the tokens are permuted,
the outputs are permuted in the same way. (The article calls this 置换不变, permutation invariant. It describes
equivariance; only a result pooled over all positions, such as a mean, is invariant.)

Measured, for untrained encoders of two blocks in float64: the distance of f(P x) from P f(x), relative to the norm of
f(x), for permutations P of the tokens: zero up to rounding means equivariance. The same for each position encoding, and
for a model without positions but with a causal mask, which breaks the symmetry by itself. Last, the mean over positions
for "dog bites man" and "man bites dog". (Bidirectional ALiBi depends on distances only, and the second sentence is the
mirror image of the first: it distinguishes permutations in general, but not this one.)
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, GRAY, ORANGE, example
from tinyattn.models import GPT, Encoder, EncoderConfig, GPTConfig

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")
LENGTH, VOCABULARY = 12, 20


def make_model(positions, causal=False, seed=0):
    """An untrained transformer in float64, with query and key weights large enough for uneven attention."""
    ta.manual_seed(seed)
    model, config = (GPT, GPTConfig) if causal else (Encoder, EncoderConfig)
    settings = {
        "layers": 2,
        "heads": 4,
        "dim": 32,
        "block_size": LENGTH,
        "positions": positions,
        "bias": True,
        "activation": "gelu",
        "qk_norm": False,
    }
    if causal:
        settings["previous_embedding"] = False  # the mask alone breaks the symmetry
    made = model(config(vocabulary_size=VOCABULARY, **settings)).to(np.float64)
    for block in made.blocks:
        for layer in (block.attention.query, block.attention.key):
            layer.load_state_dict({"weight": 10 * layer.weight.numpy()}, strict=False)
    return made


def outputs(model, tokens):
    """The residual stream after the last block, (length, dim)."""
    with ta.no_grad():
        return model.read(np.asarray(tokens)[None]).numpy()[0]


def distance_from_equivariance(model, shuffles=8, seed=1):
    """The largest |f(P x) - P f(x)| / |f(x)| over several permutations P."""
    random = np.random.default_rng(seed)
    tokens = random.permutation(VOCABULARY)[:LENGTH]
    out = outputs(model, tokens)
    shuffled = (random.permutation(LENGTH) for _ in range(shuffles))
    return max(
        np.linalg.norm(outputs(model, tokens[order]) - out[order]) / np.linalg.norm(out)
        for order in shuffled
    )


def distance_of_means(model):
    """The relative distance between the mean outputs for "dog bites man" and "man bites dog"."""
    dog, bites, man = 3, 7, 11
    one = outputs(model, [dog, bites, man]).mean(axis=0)
    other = outputs(model, [man, bites, dog]).mean(axis=0)
    return np.linalg.norm(one - other) / np.linalg.norm(one)


def measure():
    """The two distances for each position encoding, and for a causal mask alone."""
    models = {f"positions: {name}": make_model(name) for name in POSITIONS}
    models["none, causal mask"] = make_model("none", causal=True)
    return {
        name: (distance_from_equivariance(model), distance_of_means(model))
        for name, model in models.items()
    }


@example
def main(run):
    measured = measure()
    run.print_table(
        ("", "|f(Px) - P f(x)| / |f(x)|", "means of the two sentences"),
        [(name, f"{one:.1e}", f"{other:.1e}") for name, (one, other) in measured.items()],
    )
    assert max(measured["positions: none"]) < 1e-12
    for name, (distance, of_means) in measured.items():
        if name != "positions: none":
            assert distance > 1e-4
            assert of_means < 1e-12 if name == "positions: alibi" else of_means > 1e-4

    tokens, order = np.arange(LENGTH), np.random.default_rng(0).permutation(LENGTH)
    model = make_model("none")
    out, shuffled = outputs(model, tokens), outputs(model, tokens[order])
    invariance = np.linalg.norm(shuffled - out) / np.linalg.norm(out)
    print(
        f"\nequivariant, not invariant: |f(Px) - f(x)| / |f(x)| = {invariance:.2f} without positions"
    )
    assert invariance > 0.1

    figure, (left, middle, right) = run.figure(1, 3)
    for panel, rows, title in (
        (left, out, "outputs, in order"),
        (middle, shuffled, "outputs, permuted"),
    ):
        panel.imshow(rows[:, :LENGTH], cmap="PuOr_r", vmin=-2.5, vmax=2.5)
        panel.set(title=title, xticks=[], ylabel="token")
        panel.grid(False)
    left.set_yticks(range(LENGTH), tokens, fontsize=7)
    middle.set_yticks(range(LENGTH), tokens[order], fontsize=7)
    names = list(measured)
    values = [max(measured[name][0], 1e-17) for name in names]
    colors = [BLUE] + [ORANGE] * len(POSITIONS[1:]) + [GRAY]
    right.barh(names, values, color=colors, log=True)
    right.invert_yaxis()
    right.set(title="distance from equivariance", xlim=(1e-17, 10))
    run.save(figure)


if __name__ == "__main__":
    main()
