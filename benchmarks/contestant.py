"""The process of one contestant: runs calls on request from standard input, and prints measurements as JSON lines."""

import importlib
import json
import multiprocessing
import resource
import sys
import time


def peak_memory():
    """Peak memory of this process and its workers, in MB; shared pages count once."""
    workers = multiprocessing.active_children()
    try:
        return _peak_memory_of("self") + sum(_private_memory_of(worker.pid) for worker in workers)
    except OSError:
        scale = 1024 if sys.platform != "darwin" else 1024**2
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def _peak_memory_of(process):
    """Peak resident memory. On Linux, that of getrusage includes the parent's memory at the fork."""
    return _kilobytes(process, "status", "VmHWM") / 1024


def _private_memory_of(process):
    """Memory of a worker that its parent does not share, after its work; a worker does not release memory."""
    names = ("Private_Clean", "Private_Dirty")
    return sum(_kilobytes(process, "smaps_rollup", name) for name in names) / 1024


def _kilobytes(process, file, name):
    with open(f"/proc/{process}/{file}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main(module, name, options):
    module = importlib.import_module(f"benchmarks.{module}")
    answer = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not mix with the results
    try:
        if name not in module.CONTESTANTS:
            raise ImportError(
                f"unknown contestant {name}: expected one of {', '.join(module.CONTESTANTS)}"
            )
        start = module.CONTESTANTS[name]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answer, flush=True)
        return
    base = peak_memory()
    call = start(**json.loads(options))
    call()
    print(json.dumps({"base_megabytes": base}), file=answer, flush=True)
    for line in sys.stdin:
        seconds, busy = [], []
        call()  # warm up: other contestants evicted the caches
        for _ in range(int(line)):
            began, began_busy = time.perf_counter(), time.process_time()
            call()
            seconds.append(time.perf_counter() - began)
            busy.append(time.process_time() - began_busy)
        measured = {"seconds": seconds, "processor_seconds": busy, "megabytes": peak_memory()}
        print(json.dumps(measured), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
