"""The state that the sections of the GPU benchmark share: device, remaining time, results."""

import json
import statistics
import time
from pathlib import Path

from tinyattn.backend import get_backend
from tinyattn.data.atomic import write_atomic

from ..machine import describe_machine

PRECISIONS = ("float32", "tf32", "float16")


class Session:
    """The device, the remaining time and the results so far.

    Args:
        device: such as ``"cuda"``.
        budget: time for all sections in seconds.
        path: path of the JSON file.
        rehearse: whether to run at small sizes, with simulated kernels.
    """

    def __init__(self, device, budget, path, rehearse=False):
        self.device = device
        self.ends = time.monotonic() + budget
        self.path = Path(path)
        self.rehearse = rehearse
        self.backend = get_backend(device)
        self.results = {"rehearsal": rehearse, "machine": describe_machine(), "gpu": self.gpu()}

    def gpu(self):
        """Name, memory and software versions of the GPU."""
        if self.rehearse:
            return None
        import cupy

        number = int(self.backend.device.partition(":")[2] or 0)
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        return {
            "name": properties["name"].decode(),
            "compute_capability": cupy.cuda.Device(number).compute_capability,
            "memory_gb": properties["totalGlobalMem"] / 1e9,
            "driver": cupy.cuda.runtime.driverGetVersion(),
            "cupy": cupy.__version__,
        }

    @property
    def left(self):
        """The remaining time in seconds."""
        return self.ends - time.monotonic()

    def run(self, section):
        """Run a section, record its result or its error, and write all results to the file."""
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
        """Median and minimum over ``rounds`` of the time per call, after a warm-up."""
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
