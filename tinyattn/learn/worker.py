"""The process that runs a learner's file: ``python -m tinyattn.learn.worker DIRECTORY``.

It reads ``request.json`` in the directory and writes ``result.json``. Standard output and standard error are left to
the learner's code. The process ends with its parent.
"""

import contextlib
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from .answer import Answer, AnswerError
from .exercise import Vjp, exercise
from .judge import judge
from .verdict import Verdict, describe_error


def main(directory):
    """Process ``request.json`` in ``directory``, and write ``result.json``."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    request = json.loads((Path(directory) / "request.json").read_text("utf-8"))
    _limit_processor_time(request["seconds"])
    result = _gradients(request) if request["calls"] else _verdicts(request)
    (Path(directory) / "result.json").write_text(json.dumps(result), "utf-8")
    sys.stdout.flush()
    os._exit(0)  # also ends threads that the learner's code has started


def load(file):
    """The functions and other names of a learner's file, a dict.

    Raises:
        AnswerError: if the file raises, with the line.
    """
    specification = importlib.util.spec_from_file_location(f"answer_{Path(file).stem}", file)
    module = importlib.util.module_from_spec(specification)
    sys.path.append(str(Path(file).parent))
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise AnswerError(describe_error(error, file=str(file))) from error
    return vars(module)


def _verdicts(request):
    parts = exercise(request["exercise"]).parts
    try:
        names = load(request["file"])
    except AnswerError as error:
        found = [f"{Path(request['file']).name} does not run"]
        return {"verdicts": [vars(Verdict(parts[0].name, findings=found, diagnosis=str(error)))]}
    verdicts = []
    for part in parts:
        if part.name in names:
            verdicts.append(judge(part, names[part.name]))
        else:
            missing = f"{part.name} is not in {Path(request['file']).name}"
            verdicts.append(Verdict(part.name, written=False, findings=[missing]))
    return {"verdicts": [vars(verdict) for verdict in verdicts]}


def _gradients(request):
    """The learner's gradients at given calls: ``[part name, g, out, inputs, parameters]``."""
    names = load(request["file"])
    results = []
    for name, g, out, inputs, parameters in request["calls"]:
        part = next(p for p in exercise(request["exercise"]).parts if p.name == name)
        assert isinstance(part, Vjp)
        arrays = [None if x is None else np.asarray(x) for x in inputs]
        parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
        try:
            if name not in names:
                raise AnswerError(f"{name} is not in the file")
            answer = Answer(names[name], part.primitive)
            with np.errstate(all="ignore"):
                found = answer.gradients(np.asarray(g), np.asarray(out), arrays, parameters)
            results.append([None if d is None else np.asarray(d, float).tolist() for d in found])
        except AnswerError as error:
            results.append(str(error))
        except (Exception, SystemExit) as error:
            results.append(describe_error(error, names[name]))
    return {"gradients": results}


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _limit_processor_time(seconds):
    """Limit the CPU time, if the OS can: this also ends a loop inside a C function, unlike the thread above."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(2 * seconds) + 5, most))


if __name__ == "__main__":
    main(sys.argv[1])
