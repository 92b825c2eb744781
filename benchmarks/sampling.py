"""Sampling speed of a GPT of 4 layers, 4 heads and 128 channels, in characters per second."""

import numpy as np

from .race import print_table, race

MODEL = {"layers": 4, "heads": 4, "dim": 128}
BLOCK_SIZE = 256


def tinyattn(cached=True):
    import tinyattn as ta
    from tinyattn.backend import Random
    from tinyattn.sampling import generate

    def start(length):
        ta.manual_seed(0)
        config = ta.models.GPTConfig.gpt2(**MODEL, vocabulary_size=65, block_size=BLOCK_SIZE)
        model = ta.models.GPT(config).eval()

        def with_cache():
            list(generate(model, np.array([0]), length, temperature=1.0, random=Random(0)))

        def without_cache():
            ids, random = [0], np.random.default_rng(0)
            with ta.no_grad():
                for _ in range(length):
                    logits = model(np.array([ids[-BLOCK_SIZE:]])).numpy()[0, -1].astype(np.float64)
                    p = np.exp(logits - logits.max())
                    ids.append(int(random.choice(len(p), p=p / p.sum())))

        return with_cache if cached else without_cache

    return start


def tinyattn_without_cache():
    return tinyattn(cached=False)


def torch(cached=True):
    import torch

    from .peers import torch_gpt

    def start(length):
        torch.manual_seed(0)
        model = torch_gpt.GPT(**MODEL, block_size=BLOCK_SIZE).eval()

        @torch.inference_mode()
        def call():
            ids = torch.zeros((1, 1), dtype=torch.long)
            caches = [[] for _ in range(MODEL["layers"])]
            for position in range(length):
                if cached:
                    logits = model(ids[:, -1:], caches, start=position)
                else:
                    logits = model(ids[:, -BLOCK_SIZE:])
                p = torch.softmax(logits[:, -1], dim=-1)
                ids = torch.cat([ids, torch.multinomial(p, 1)], dim=1)

        return call

    return start


def torch_without_cache():
    return torch(cached=False)


CONTESTANTS = {
    "tinyattn": tinyattn,
    "tinyattn_without_cache": tinyattn_without_cache,
    "torch": torch,
    "torch_without_cache": torch_without_cache,
}


def run(quick=False):
    length = 64 if quick else BLOCK_SIZE - 1
    results = race(
        "sampling", list(CONTESTANTS), {"length": length}, *((1, 1) if quick else (3, 2))
    )
    own = results["tinyattn"]
    rows = []
    for name, one in results.items():
        if "missing" not in one:
            one["characters_per_second"] = length / one["median_ms"] * 1e3
            one["times_slower"] = one["median_ms"] / own["median_ms"]
            rows.append([name, one["characters_per_second"], one["times_slower"]])
    title = f"sampling {length} characters from an empty prompt"
    print_table(title, ["", "characters per second", "times slower"], rows)
    return {"length": length, "results": results}
