"""The process of one contestant: sets it up, then answers each line on standard input with measured times."""

import importlib
import json
import resource
import sys
import time


def most_memory():
    """The most memory this process ever held, in MB."""
    try:
        # Not getrusage, which on Linux begins with what the parent held.
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except OSError:
        scale = 1024 if sys.platform != "darwin" else 1024**2
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


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
