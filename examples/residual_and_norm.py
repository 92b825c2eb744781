"""The effect of residual connections and norms: deep stacks of attention and feed-forward layers without them.

Article, section 9 ("Self-Attention 在 Transformer 中的位置", its table of components). Claims: residual connections
pass gradients through and preserve the input; LayerNorm stabilizes training and makes it faster.

The blocks are those of the article, x = norm(x + attention(x)), x = norm(x + feed_forward(x)), with or without the
residual connection and with or without the norm.

Measured, before training, at several depths: the norm of the gradient at the input relative to that of a random
cotangent of the output; and the collapse of the tokens: the norm of the component that all tokens share relative to the
norm of the output. Without residual connections every layer averages, and the tokens become equal. Then the loss after
training 6 blocks at several learning rates to predict the token two positions before.

The norm stabilizes training here: at a learning rate of 0.03 only the stack with norms learns, and at 0.1 the one
without diverges. It does not make training faster: with today's initialization, 6 blocks without norms learn this small
task sooner.

After Y. Dong, J.-B. Cordonnier and A. Loukas, "Attention is not all you need: pure attention loses rank doubly
exponentially with depth" (2021).
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, GRAY, GREEN, ORANGE, example, fit
from tinyattn import nn

VARIANTS = {
    "both": (True, True, BLUE),
    "no norm": (True, False, GREEN),
    "no residual": (False, True, ORANGE),
    "neither": (False, False, GRAY),
}
TOKENS, LENGTH, BACK = 8, 12, 2


class Layer(nn.Module):
    """A sublayer with an optional residual connection and an optional norm."""

    def __init__(self, inner, dim, residual, norm):
        self.inner = inner
        self.residual = residual
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()

    def forward(self, x):
        y = self.inner(x)
        return self.norm(x + y if self.residual else y)


def make_stack(variant, depth, dim=32):
    """``depth`` blocks of causal attention with rotary positions and a feed-forward layer."""
    residual, norm, _ = VARIANTS[variant]
    layers = []
    for _ in range(depth):
        attention = nn.MultiHeadAttention(dim, 2, causal=True, rotary=nn.Rotary(dim // 2))
        for inner in (attention, nn.FeedForward(dim)):
            layers.append(Layer(inner, dim, residual, norm))
    return nn.Sequential(*layers)


def through_the_stack(variant, depth, dim=32, seed=0):
    """The relative norm of the gradient at the input, and of the component of the output that all tokens share."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    x = ta.tensor(random.standard_normal((8, LENGTH, dim)), dtype=np.float32, requires_grad=True)
    out = make_stack(variant, depth)(x)
    cotangent = random.standard_normal(out.shape).astype(np.float32)
    (gradient,) = ta.grad(out, [x], grad_outputs=[cotangent])
    y = out.numpy()
    common = np.broadcast_to(y.mean(axis=1, keepdims=True), y.shape)
    gain = np.linalg.norm(gradient.numpy()) / np.linalg.norm(cotangent)
    return gain, np.linalg.norm(common) / np.linalg.norm(y)


def train(variant, steps, learning_rate, depth=6, dim=32, seed=0):
    """The losses of a stack that is trained to predict the token ``BACK`` positions before."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    embedding, stack = nn.Embedding(TOKENS, dim), make_stack(variant, depth, dim)
    readout = nn.Linear(dim, TOKENS)

    def loss():
        tokens = random.integers(0, TOKENS, (32, LENGTH))
        logits = readout(stack(embedding(tokens)))
        return ta.cross_entropy(logits[:, BACK:], tokens[:, :-BACK])

    parameters = [*embedding.parameters(), *stack.parameters(), *readout.parameters()]
    return fit(parameters, loss, steps, learning_rate)


@example
def main(run):
    depths = run.choose((1, 2, 4, 8, 16), (2, 8))
    steps, rates = run.choose((80, (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)), (50, (3e-3, 1e-1)))
    passed = {(v, depth): through_the_stack(v, depth) for v in VARIANTS for depth in depths}
    # Without the norm, the largest rate is expected to diverge.
    with np.errstate(over="ignore", invalid="ignore"):
        trained = {(v, rate): train(v, steps, rate) for v in VARIANTS for rate in rates}
    last = {key: np.mean(losses[-10:]) for key, losses in trained.items()}

    names = ("relative gradient at the input", "component that all tokens share")
    for which, name in enumerate(names):
        print(f"{name}, by depth:\n")
        rows = [(v, *(f"{passed[v, depth][which]:.2g}" for depth in depths)) for v in VARIANTS]
        run.print_table(("", *depths), rows)
        print()
    print(
        f"loss of 6 blocks after {steps} steps, by learning rate (chance: {np.log(TOKENS):.3f}):\n"
    )
    rows = [(v, *(f"{last[v, rate]:.3f}" for rate in rates)) for v in VARIANTS]
    run.print_table(("", *rates), rows)

    deep, small, large = depths[-1], 3e-3, rates[-1]
    for variant in ("both", "no norm"):
        assert 0.3 < passed[variant, deep][0] < 3
        assert passed[variant, deep][1] < 0.9
        assert last[variant, small] < 1.2
    assert passed["neither", deep][0] < 1e-6
    for variant in ("no residual", "neither"):
        assert passed[variant, deep][1] > 0.97
        assert last[variant, small] > 0.9 * np.log(TOKENS)
    assert last["both", large] < 4
    assert not last["no norm", large] < 4  # nor is NaN

    figure, (left, middle, right) = run.figure(1, 3)
    for variant, (*_, color) in VARIANTS.items():
        style = {"color": color, "marker": "o", "label": variant}
        left.loglog(depths, [passed[variant, depth][0] for depth in depths], **style)
        middle.semilogx(depths, [passed[variant, depth][1] for depth in depths], **style)
        losses = np.minimum(np.nan_to_num([last[variant, rate] for rate in rates], nan=np.inf), 4)
        right.semilogx(rates, losses, **style)
    for panel, title in (
        (left, "relative gradient at the input"),
        (middle, "component that all tokens share"),
    ):
        panel.set_xscale("log", base=2)
        panel.set_xticks(depths, depths)
        panel.set(title=title, xlabel="blocks")
    left.legend()
    middle.set_ylim(0, 1.05)
    right.axhline(np.log(TOKENS), linestyle="--", color="gray", linewidth=1)
    right.set(
        title=f"loss after {steps} steps (4: or more)", xlabel="learning rate", ylim=(-0.1, 4.1)
    )
    run.save(figure)


if __name__ == "__main__":
    main()
