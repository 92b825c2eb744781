"""Training on a GPU: the time of a step against PyTorch, its launches, and the time to a validation loss."""

import tempfile
import time
from collections import Counter
from pathlib import Path

import tinyattn as ta
from tinyattn.backend.launches import recorded_launches
from tinyattn.data import load_corpus
from tinyattn.train.build import build_model, build_optimizers, build_step
from tinyattn.train.config import make_config
from tinyattn.train.precision import can_compute_in
from tinyattn.train.session import begin
from tinyattn.train.storage.metrics import read_metrics

from ..training_step import draw_batch, floating_point_operations
from .session import PRECISIONS

SIZES = {
    "large": {"layers": 6, "heads": 6, "dim": 384, "block_size": 256, "batch": 64},
    "small": {"layers": 4, "heads": 4, "dim": 128, "block_size": 64, "batch": 12},
}
GOAL = 1.47  # nats per character


def training_step(session):
    """The time of a training step of nanoGPT's GPU and laptop recipes: forward, backward, clipping, AdamW."""
    peak = session.results.get("matrix_peak", {}).get("tflops", {})
    sizes = {}
    for size, options in SIZES.items():
        if session.rehearse:
            options = {"layers": 1, "heads": 2, "dim": 16, "block_size": 8, "batch": 2}
        work = floating_point_operations(**options)
        rows = sizes[size] = {"options": options, "gflop": work}
        for precision in PRECISIONS:
            contestants = {"tinyattn": own_step, "torch_eager": torch_step}
            contestants["torch_compiled"] = torch_compiled_step
            row = rows[precision] = {}
            for name, make in contestants.items():
                if session.left <= 0:
                    row[name] = {"left_out": "the budget was spent"}
                    continue
                try:
                    call, synchronize = make(session, precision, **options)
                    one = session.milliseconds(call, synchronize)
                except ImportError as error:
                    row[name] = {"missing": str(error)}
                    continue
                except Exception as error:
                    row[name] = {"error": f"{type(error).__name__}: {error}"}
                    continue
                one["tokens_per_second"] = (
                    1e3 * options["batch"] * options["block_size"] / one["median_ms"]
                )
                if peak.get(precision):
                    one["share_of_peak"] = work / one["median_ms"] / peak[precision]
                row[name] = one
            peers = [
                one["median_ms"] for n, one in row.items() if n != "tinyattn" and "median_ms" in one
            ]
            if peers and "median_ms" in row["tinyattn"]:
                row["ratio_to_the_faster_torch"] = row["tinyattn"]["median_ms"] / min(peers)
    return {"sizes": sizes}


def own_step(session, precision, layers, heads, dim, block_size, batch):
    config = make_config(
        preset="nanogpt-gpu",
        layers=layers,
        heads=heads,
        dim=dim,
        block_size=block_size,
        batch_size=batch,
        dropout=0.0,
        bias=True,
        activation="gelu_tanh",
        precision=precision,
        workers=1,
    )
    if not can_compute_in(precision, session.backend):
        raise ImportError(f"{session.device} cannot compute in {precision}")
    with ta.device(session.device):
        model = build_model(config, 65)
    optimizers = build_optimizers(model, config)
    step = build_step(model, config, optimizers)
    ids, targets = draw_batch(batch, block_size)

    def call():
        step(ids, targets, key=0)
        optimizers.clip()
        optimizers.step(step.executor)

    return call, session.backend.synchronize


def torch_step(session, precision, layers, heads, dim, block_size, batch, compiled=False):
    import torch

    from .peers import torch_gpt

    place = "cpu" if session.rehearse else session.device
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model = torch_gpt.GPT(layers, heads, dim, block_size).to(place)
    optimizer = torch_gpt.optimizer_of(model)
    loss_of = torch.compile(model.loss) if compiled and not session.rehearse else model.loss
    ids, targets = (torch.from_numpy(array).to(place) for array in draw_batch(batch, block_size))
    half = precision == "float16" and not session.rehearse
    scaler = torch.amp.GradScaler(place, enabled=half)

    def call():
        with torch.autocast("cuda", torch.float16, enabled=half):
            loss = loss_of(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return call, lambda: None if session.rehearse else torch.cuda.synchronize()


def torch_compiled_step(session, precision, **options):
    return torch_step(session, precision, compiled=True, **options)


def profile(session):
    """The launches of a step of the large size by name, the host time to queue them, and the time until they end."""
    options = SIZES["large"]
    if session.rehearse:
        options = {"layers": 1, "heads": 2, "dim": 16, "block_size": 8, "batch": 2}
    call, synchronize = own_step(session, "float32", **options)
    call()
    synchronize()
    with recorded_launches() as launches:
        began = time.perf_counter()
        call()
        launched = time.perf_counter() - began
        synchronize()
        finished = time.perf_counter() - began
    return {
        "launches": dict(Counter(launches).most_common()),
        "kernels": len(launches),
        "host_ms": 1e3 * launched,
        "until_done_ms": 1e3 * finished,
    }


def time_to_quality(session):
    """The time of ``tinyattn train --preset nanogpt-gpu`` to a loss of 1.47 on the whole validation set."""
    options = {"preset": "nanogpt-gpu", "device": session.device, "sample_every": 0}
    if session.rehearse:
        small = {"layers": 1, "heads": 2, "dim": 16, "block_size": 8, "batch_size": 2, "steps": 2}
        options |= {**small, "evaluate_every": 1, "evaluate_characters": 50}
    elif can_compute_in("tf32", session.backend):
        options["precision"] = "tf32"
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text(load_corpus("pydoc" if session.rehearse else "shakespeare"))
        trainer = begin(make_config(options, data=str(text)), Path(folder, "run"))
        trainer.train(_Quiet(), lambda: session.left <= 0 or trainer.best_loss <= GOAL)
        losses = [
            {"step": line["step"], "seconds": line["seconds"], "loss": line["val_loss"]}
            for line in read_metrics(Path(folder, "run", "metrics.jsonl"))
            if "val_loss" in line
        ]
    reached = [one["seconds"] for one in losses if one["loss"] <= GOAL]
    return {"goal": GOAL, "seconds_to_goal": reached[0] if reached else None, "validation": losses}


class _Quiet:
    """A display that shows nothing."""

    def __getattr__(self, name):
        return lambda *_: None
