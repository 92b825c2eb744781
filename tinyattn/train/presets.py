"""Presets of ``tinyattn train``: the options that differ from the defaults in ``config.py``."""

_NANOGPT = {
    # nanoGPT's config/train_shakespeare_char.py and the defaults of its train.py.
    "positions": "learned",
    "activation": "gelu",
    "qk_norm": False,
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "decay": "cosine",
    "decay_share": 1.0,
    "final_share": 0.1,
    "warmup_steps": 100,
    "evaluate_every": 250,
    "sample_every": 500,
    "previous_embedding": False,
}
PRESETS = {
    "fast": {},
    # A model that GPT-2's architecture can express: tinyattn export.
    "gpt2-shaped": {
        "positions": "learned",
        "qk_norm": False,
        "bias": True,
        "previous_embedding": False,
    },
    # nanoGPT's config/finetune_shakespeare.py and the defaults of its train.py, with a batch for 2 cores. Its step has
    # 64 times as many tokens.
    "finetune": {
        "optimizer": "adamw",
        "learning_rate": 3e-5,
        "decay": "none",
        "warmup_steps": 0,
        "beta2": 0.95,
        # BLAS's threads share the large products; each worker would hold the gradients of all parameters again.
        "workers": 1,
        "steps": 100,
        "batch_size": 4,
        "block_size": 128,
        "evaluate_every": 25,
        "evaluate_characters": 16_384,
        "sample_every": 50,
        "sample_length": 100,
    },
    # The recipe of its README for a laptop without a GPU.
    "nanogpt-cpu": {
        **_NANOGPT,
        "steps": 2000,
        "batch_size": 12,
        "layers": 4,
        "heads": 4,
        "dim": 128,
        "block_size": 64,
        "dropout": 0.0,
    },
    "nanogpt-gpu": {
        **_NANOGPT,
        "steps": 5000,
        "batch_size": 64,
        "layers": 6,
        "heads": 6,
        "dim": 384,
        "block_size": 256,
        "dropout": 0.2,
    },
}
