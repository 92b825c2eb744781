"""GPT-2 with 124 million parameters: loading, a forward pass, sampling and fine-tuning, against transformers.

Both read the same folder, with random weights: the times do not depend on the values. Requires PyTorch and the
library ``transformers``.
"""

import tempfile

import numpy as np

from .race import print_table, race

TASKS = {
    "load": "loading from safetensors",
    "forward": "forward pass of 64 tokens",
    "sample": "sampling 32 tokens with a cache",
    "tune": "fine-tuning step of 4 x 128 tokens",
}
BATCH, LENGTH = 4, 128
RATE = 3e-5
PAGE = 1024  # numbers of float32 in a page of memory


def draw(*shape, vocabulary_size):
    return np.random.default_rng(0).integers(vocabulary_size, size=shape)


def touch(arrays):
    """Read a number of each page: a file that is only mapped is not loaded yet."""
    for array in arrays:
        array.reshape(-1)[::PAGE].sum()


def tinyattn():
    import tinyattn as ta
    from tinyattn.backend import Random
    from tinyattn.optim import AdamW, clip_grad_norm
    from tinyattn.sampling import generate
    from tinyattn.train.parallel import make_executor
    from tinyattn.train.presets import PRESETS
    from tinyattn.train.step import BatchStep

    def start(folder, task, vocabulary_size):
        def load():
            return ta.models.GPT.from_pretrained(folder)

        if task == "load":
            return lambda: touch(p.data for p in load().parameters())
        model = load()
        if task == "forward":
            ids = draw(1, 64, vocabulary_size=vocabulary_size)

            def forward():
                with ta.no_grad():
                    return model(ids)

            return forward
        if task == "sample":
            prompt = draw(8, vocabulary_size=vocabulary_size)
            return lambda: list(generate(model, prompt, 32, temperature=1.0, random=Random(0)))
        for module in model.modules():
            if isinstance(module, ta.nn.Dropout):
                module.p = 0.0
        model.train()
        optimizer = AdamW(model.named_parameters(), lr=RATE, betas=(0.9, 0.999), weight_decay=0.01)
        executor = make_executor(model, PRESETS["finetune"]["workers"])
        step = BatchStep(executor, [optimizer])
        ids = draw(BATCH, LENGTH + 1, vocabulary_size=vocabulary_size)

        def tune():
            step(ids[:, :-1], ids[:, 1:], key=0)
            clip_grad_norm(step.parameters, 1.0)
            optimizer.step(executor)

        return tune

    return start


def transformers():
    import torch
    from transformers import GPT2LMHeadModel

    def start(folder, task, vocabulary_size):
        def load():
            return GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()

        if task == "load":
            return lambda: touch(p.detach().numpy() for p in load().parameters())
        model = load()
        if task == "forward":
            ids = torch.from_numpy(draw(1, 64, vocabulary_size=vocabulary_size))

            @torch.inference_mode()
            def forward():
                return model(ids).logits

            return forward
        if task == "sample":
            prompt = torch.from_numpy(draw(1, 8, vocabulary_size=vocabulary_size))
            options = {"do_sample": True, "top_k": 0, "min_new_tokens": 32, "max_new_tokens": 32}
            return lambda: model.generate(prompt, pad_token_id=0, **options)
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
        ids = torch.from_numpy(draw(BATCH, LENGTH + 1, vocabulary_size=vocabulary_size))

        def tune():
            logits = model(ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        return tune

    return start


CONTESTANTS = {"tinyattn": tinyattn, "transformers": transformers}


def run(quick=False):
    import tinyattn as ta

    settings = {"layers": 2, "dim": 96, "vocabulary_size": 1000} if quick else {}
    config = ta.models.GPTConfig.gpt2(**settings)
    result, rows = {"tasks": {}}, []
    with tempfile.TemporaryDirectory() as folder:
        model = ta.models.GPT(config)
        size = model.parameter_count()
        model.save_pretrained(folder)
        del model
        for task, title in TASKS.items():
            options = {"folder": folder, "task": task, "vocabulary_size": config.vocabulary_size}
            results = race("gpt2", list(CONTESTANTS), options, *((1, 1) if quick else (4, 3)))
            result["tasks"][task] = results
            own, peer = results["tinyattn"], results["transformers"]
            row = [title, own["median_ms"], peer.get("median_ms"), peer.get("ratio")]
            memory = [own["peak_mb_over_imports"], peer.get("peak_mb_over_imports")]
            rows.append([*row, *memory, memory[0] / memory[1] if memory[1] else None])
    header = ["", "tinyattn ms", "torch ms", "ratio", "tinyattn MB", "torch MB", "ratio"]
    print_table(f"GPT-2, {size:,} parameters, float32", header, rows)
    return result
