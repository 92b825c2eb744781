"""The process of one contestant: sets it up, then answers each line on standard input with measured times."""

import importlib
import json
import multiprocessing
import resource
import sys
import time


def most_memory():
    """The most memory this process and its workers ever held, in MB; pages that they share count once."""
    workers = multiprocessing.active_children()
    try:
        return _most_memory_of("self") + sum(_own_memory_of(worker.pid) for worker in workers)
    except OSError:
        scale = 1024 if sys.platform != "darwin" else 1024**2
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def _most_memory_of(process):
    """Not by getrusage, which on Linux begins with what the parent held."""
    return _kilobytes(process, "status", "VmHWM") / 1024


def _own_memory_of(process):
    """What a worker holds that its parent does not: it is asked after its work, and keeps what it once had."""
    names = ("Private_Clean", "Private_Dirty")
    return sum(_kilobytes(process, "smaps_rollup", name) for name in names) / 1024


def _kilobytes(process, file, name):
    with open(f"/proc/{process}/{file}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main(module, name, options):
    module = importlib.import_module(f"benchmarks.{module}")
    answer = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints does not get between
    try:
        if name not in module.CONTESTANTS:
            raise ImportError(f"there is no contestant {name}")
        start = module.CONTESTANTS[name]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), file=answer, flush=True)
        return
    base = most_memory()
    call = start(**json.loads(options))
    call()
    print(json.dumps({"base_megabytes": base}), file=answer, flush=True)
    for line in sys.stdin:
        seconds, busy = [], []
        call()  # caches are another's after a turn
        for _ in range(int(line)):
            began, began_busy = time.perf_counter(), time.process_time()
            call()
            seconds.append(time.perf_counter() - began)
            busy.append(time.process_time() - began_busy)
        measured = {"seconds": seconds, "processor_seconds": busy, "megabytes": most_memory()}
        print(json.dumps(measured), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
