"""Everything there is to know about an NVIDIA GPU, in one command: ``python -m benchmarks.gpu [--budget SECONDS]``.

The sections run in the order of their value, as far as the budget goes, and the JSON file is whole after each: the
tests on the GPU; training steps of nanoGPT's two sizes against PyTorch, in float32, TF32 and float16; attention against
PyTorch's SDPA; the time to a validation loss of 1.47 on Tiny Shakespeare; a profile of the launches of a step.

``--rehearse`` runs the same code in miniature without a GPU, kernels in the simulator: its figures mean nothing.
"""

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import tinyattn as ta
from tinyattn.backend import get_backend
from tinyattn.backend.launches import recorded_launches
from tinyattn.data import load_corpus
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.train.build import build_model, build_optimizers, build_step
from tinyattn.train.config import make_config
from tinyattn.train.precision import can_compute_in
from tinyattn.train.session import begin
from tinyattn.train.storage.atomic import write_atomic
from tinyattn.train.storage.metrics import read_metrics

from .machine import describe_machine
from .race import ROOT
from .training_step import draw_batch, floating_point_operations

PRECISIONS = ("float32", "tf32", "float16")
SIZES = {
    "large": {"layers": 6, "heads": 6, "dim": 384, "block_size": 256, "batch": 64},
    "small": {"layers": 4, "heads": 4, "dim": 128, "block_size": 64, "batch": 12},
}
LENGTHS = (1024, 2048, 4096, 8192, 16384)
HEAD_DIM = 64
GOAL = 1.47  # nats a character


class Session:
    """What the sections share: the device, how much time is left, and what has been found.

    Args:
        device: such as ``"cuda"``.
        budget: seconds for all sections.
        path: of the JSON file.
        rehearse: whether to run in miniature, in the simulator.
    """

    def __init__(self, device, budget, path, rehearse=False):
        self.device = device
        self.ends = time.monotonic() + budget
        self.path = Path(path)
        self.rehearse = rehearse
        self.backend = get_backend(device)
        self.results = {"rehearsal": rehearse, "machine": describe_machine(), "gpu": self.gpu()}

    def gpu(self):
        """What the GPU is."""
        if self.rehearse:
            return None
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(0)
        return {
            "name": properties["name"].decode(),
            "compute_capability": cupy.cuda.Device().compute_capability,
            "memory_gb": properties["totalGlobalMem"] / 1e9,
            "driver": cupy.cuda.runtime.driverGetVersion(),
            "cupy": cupy.__version__,
        }

    @property
    def left(self):
        """Seconds that are left."""
        return self.ends - time.monotonic()

    def run(self, section):
        """Run a section, note what it returns or why it failed, and write everything to the file."""
        name = section.__name__
        if self.left <= 0:
            self.results[name] = {"left_out": "the budget was spent"}
        else:
            began = time.monotonic()
            print(f"== {name} ({self.left:.0f} s left)", flush=True)
            try:
                result = section(self)
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {error}"}
            self.results[name] = {**result, "seconds": time.monotonic() - began}
            print(json.dumps(result, indent=1), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, json.dumps(self.results, indent=2) + "\n")

    def milliseconds(self, call, synchronize, rounds=5, calls=10):
        """The median of some rounds' time a call, and the fastest; the first calls are not counted."""
        for _ in range(1 if self.rehearse else 3):
            call()
        synchronize()
        if self.rehearse:
            rounds, calls = 1, 1
        found = []
        for _ in range(rounds):
            if found and self.left <= 0:
                break
            began = time.perf_counter()
            for _ in range(calls):
                call()
            synchronize()
            found.append(1e3 * (time.perf_counter() - began) / calls)
        return {"median_ms": statistics.median(found), "fastest_ms": min(found)}


def tests(session):
    """``pytest -m gpu``, for at most two fifths of the time."""
    if session.rehearse:
        command = ["-m", "pytest", "-q", "tests/kernels/cuda/test_simulator.py", "-k", "is_right"]
    else:
        command = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    seconds = 0.4 * session.left
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, text=True, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return {"passed": False, "stopped_after": seconds, "output": output[-4000:]}
    counts = {
        word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    passed = done.returncode == 0
    return {"passed": passed, **counts, "output": "" if passed else done.stdout[-8000:]}


def matrix_peak(session):
    """TFLOP/s of one large matrix product in each precision: the ceiling of everything here."""
    size = 64 if session.rehearse else 8192
    found = {}
    for precision in PRECISIONS:
        with in_precision(session, precision) as dtype:
            x = session.backend.asarray(np.ones((size, size), dtype))
            out = session.backend.empty((size, size), dtype)

            def call(x=x, out=out):
                from tinyattn.kernels.cuda.products import multiply

                multiply(x, x, out)

            measured = session.milliseconds(call, session.backend.synchronize)
            found[precision] = 2 * size**3 / measured["fastest_ms"] / 1e9
    return {"tflops": found}


def training_step(session):
    """A step of nanoGPT's GPU and laptop recipes: forward, backward, clipping, AdamW."""
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


def attention(session):
    """Causal attention, forward and backward, heads of 64, against PyTorch's SDPA in the same precision."""
    found = {}
    for length in (16, 24) if session.rehearse else LENGTHS:
        heads = 1 if session.rehearse else max(4, 2**26 // length**2)
        random = np.random.default_rng(0)
        arrays = [
            random.standard_normal((1, heads, length, HEAD_DIM), np.float32) for _ in range(4)
        ]
        row = found[length] = {"heads": heads}
        for dtype in ("float32", "float16"):
            for name, make in (("tinyattn", own_attention), ("torch_sdpa", torch_sdpa)):
                label = f"{name}_{dtype}"
                if session.left <= 0:
                    row[label] = {"left_out": "the budget was spent"}
                    continue
                try:
                    call, synchronize = make(session, [array.astype(dtype) for array in arrays])
                    row[label] = session.milliseconds(call, synchronize, rounds=3, calls=5)
                except ImportError as error:
                    row[label] = {"missing": str(error)}
    return {"lengths": found}


def own_attention(session, arrays):
    *leaves, cotangent = (ta.tensor(array, device=session.device) for array in arrays)
    for leaf in leaves:
        leaf.requires_grad = True

    def call():
        for leaf in leaves:
            leaf.grad = None
        ta.scaled_dot_product_attention(*leaves, causal=True).backward(cotangent)

    return call, session.backend.synchronize


def torch_sdpa(session, arrays):
    import torch

    place = "cpu" if session.rehearse else session.device
    torch.backends.cuda.matmul.allow_tf32 = False
    *leaves, cotangent = (torch.from_numpy(array).to(place) for array in arrays)
    for leaf in leaves:
        leaf.requires_grad_()

    def call():
        for leaf in leaves:
            leaf.grad = None
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
        out.backward(cotangent)

    return call, lambda: None if session.rehearse else torch.cuda.synchronize()


def profile(session):
    """The launches of a step of the large size by name, the host's time to make them, and the device's to run them."""
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
    """Seconds of ``tinyattn train --preset nanogpt-gpu`` until the whole validation part is at a loss of 1.47."""
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


SECTIONS = (tests, matrix_peak, training_step, attention, profile, time_to_quality)


@contextlib.contextmanager
def in_precision(session, precision):
    """Products as ``precision`` says; gives the dtype of their operands."""
    from tinyattn.train.precision import products_in

    with products_in(precision):
        yield "float16" if precision == "float16" else "float32"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--budget", type=float, default=480, help="seconds in all")
    parser.add_argument("--device", default="cuda", help="such as cuda:1")
    parser.add_argument("--json", metavar="FILE", default=str(ROOT / "benchmarks/results/gpu.json"))
    parser.add_argument("--rehearse", action="store_true", help="in miniature, without a GPU")
    given = parser.parse_args(arguments)
    device = "strict" if given.rehearse else given.device
    try:
        get_backend(device)
    except (RuntimeError, ValueError) as error:
        print(f"nothing is measured: {error}", file=sys.stderr)
        return 2
    with simulated_kernels() if given.rehearse else contextlib.nullcontext():
        session = Session(device, given.budget, given.json, given.rehearse)
        for section in SECTIONS:
            session.run(section)
    print(f"written to {given.json}")
    failed = [
        n for n, result in session.results.items() if isinstance(result, dict) and "error" in result
    ]
    return 1 if failed or not session.results["tests"].get("passed") else 0


if __name__ == "__main__":
    sys.exit(main())
