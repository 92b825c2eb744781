"""Complete training programs: tinyattn's default recipe and nanoGPT's in PyTorch, on Tiny Shakespeare.

nanoGPT's recipe reaches about 1.9 nats per character on the validation split in 2000 steps, tinyattn's default in 300.
Losses are measured on the complete validation split; times include the startup of Python.
"""

import importlib.util
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .race import ROOT, print_table


def timed(command):
    """Run a program; returns its run time in seconds and its output."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE
    )
    return time.perf_counter() - began, done.stdout


def run_tinyattn(text, steps):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = ["--steps", str(steps), "--evaluate-every", str(steps), "--sample-every", "0"]
        command = ["-m", "tinyattn", "train", "--data", str(text), "--out", str(out), *options]
        seconds, _ = timed(command)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return seconds, [line["val_loss"] for line in lines if "val_loss" in line][-1]


def run_torch(text, steps):
    seconds, output = timed(["-m", "benchmarks.peers.nanogpt_recipe", str(text), str(steps)])
    return seconds, float(output.split()[-1])


def run(quick=False):
    from tinyattn.data import load_corpus

    programs = {"tinyattn": (run_tinyattn, 300), "torch, nanoGPT's recipe": (run_torch, 2000)}
    if importlib.util.find_spec("torch") is None:
        print("  skipping torch: it is not installed")
        programs.popitem()
    measured = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(load_corpus("pydoc" if quick else "shakespeare"), encoding="utf-8")
        for _ in range(1 if quick else 2):
            for name, (program, steps) in programs.items():
                measured[name].append(program(text, steps // 10 if quick else steps))
                print(f"  {name}: {measured[name][-1][0]:.1f} s, loss {measured[name][-1][1]:.4f}")
    own = statistics.median(seconds for seconds, _ in measured["tinyattn"])
    results, rows = {}, []
    for name, values in measured.items():
        seconds = statistics.median(one for one, _ in values)
        loss = statistics.median(one for _, one in values)
        bits = loss / math.log(2)
        results[name] = {
            "seconds": seconds,
            "validation_loss": loss,
            "bits_per_character": bits,
            "ratio": own / seconds,
        }
        rows.append([name, seconds, loss, bits, own / seconds])
    header = ["", "seconds", "validation loss, nats per character", "bits per character", "ratio"]
    print_table("complete programs; ratio: tinyattn's time divided by the program's", header, rows)
    return {"results": results}
