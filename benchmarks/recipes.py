"""Changes to the default recipe of ``tinyattn train``, one at a time, at equal time: losses over several seeds.

1. Step time. All ideas take turns, A B A B, in processes with one worker and one thread; the median processor time of a
   step, divided by the default's, depends little on the load of the machine. An idea gets the number of steps that
   takes the default's time.
2. Screening. Every idea is trained with the seeds ``SEEDS`` on each text. Runs with the same seed see the same windows
   of the text, so that their differences vary less than their losses: the gain of an idea is the mean difference, its
   standard error that of the differences.
3. The ``FINALISTS`` ideas with the largest gains are trained with more seeds and for longer.

No text contains the validation part of Tiny Shakespeare, which is for the final figures only: ideas are chosen on pydoc
and on the first nine tenths of Tiny Shakespeare, whose own last tenth is the validation part here.
"""

import functools
import json
import math
import statistics
import tempfile
from pathlib import Path

from .race import print_table, race
from .time_to_quality import timed

SEEDS = (1, 2, 3)
FINALISTS = 4
FINAL_SEEDS = (1, 2, 3, 4, 5)
FINAL_FACTOR = 5  # times the default number of steps
STEPS = 300
ROUNDS, CALLS = 10, 5  # of the measurement of step times
# Options of ``tinyattn train`` that differ from the defaults.
IDEAS = {
    "default": {},
    "without the embedding of the previous token": {"previous_embedding": False},
    "bigram embedding instead": {"previous_embedding": False, "bigram_rows": 16_384},
    "bigram embedding hashed to 2048 rows instead": {
        "previous_embedding": False,
        "bigram_rows": 2048,
    },
    "bigram embedding too": {"bigram_rows": 16_384},
    "squared ReLU": {"activation": "relu_squared"},
    "RMS norm": {"norm_kind": "rms_norm"},
    "untied output layer": {"tie_head": False},
    "3 layers, 96 channels": {"layers": 3, "dim": 96},
    "block 32, batch 24": {"block_size": 32, "batch_size": 24},
    "block 128, batch 6": {"block_size": 128, "batch_size": 6},
    "batch 8": {"batch_size": 8},
    "AdamW's learning rate doubled": {"learning_rate": 0.024},
    "AdamW's learning rate halved": {"learning_rate": 0.006},
    "Muon's learning rate times 1.5": {"muon_learning_rate": 0.045},
    "Muon's learning rate times 2/3": {"muon_learning_rate": 0.02},
    "minimax polynomials in Muon": {"muon_polynomials": "minimax"},
    "decay over 0.7 of the steps": {"decay_share": 0.7},
    "decay to a tenth": {"final_share": 0.1},
}


def contestant(options):
    """The start function of a training step with ``options``, for ``race``."""
    from threadpoolctl import threadpool_limits

    from tinyattn import manual_seed
    from tinyattn.train.build import build_model, build_optimizers, build_step
    from tinyattn.train.config import make_config

    from .training_step import draw_batch

    def start():
        threadpool_limits(1, "blas")  # threads that wait for each other use processor time
        manual_seed(0)
        config = make_config(options, workers=1)
        model = build_model(config, 65)
        optimizers = build_optimizers(model, config)
        step = build_step(model, config, optimizers)
        ids, targets = draw_batch(config.run.batch_size, config.architecture.block_size)

        def call():
            step(ids, targets, key=0)
            optimizers.clip()
            optimizers.step(step.executor)

        return call

    return start


CONTESTANTS = {name: functools.partial(contestant, options) for name, options in IDEAS.items()}


def step_times(rounds, calls):
    """The processor time of a step of each idea, divided by the default's."""
    results = race("recipes", list(IDEAS), {}, rounds, calls)
    milliseconds = {name: result["median_processor_ms"] for name, result in results.items()}
    return {name: one / milliseconds["default"] for name, one in milliseconds.items()}


def validation_loss(text, options, steps, seed):
    """The loss on the whole validation part after a training run; ``text`` is a file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = {**options, "data": text, "out": out, "steps": steps, "seed": seed}
        options |= {"evaluate_every": steps, "sample_every": 0}
        timed(["-m", "tinyattn", "train", *command_line(options)])
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["val_loss"] for line in lines if "val_loss" in line][-1]


def command_line(options):
    """Options as arguments of the command.

    >>> command_line({"dim": 96, "tie_head": False})
    ['--dim', '96', '--no-tie-head']
    """
    arguments = []
    for name, value in options.items():
        name = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{name}" if value else f"--no-{name}")
        else:
            arguments += [f"--{name}", str(value)]
    return arguments


def compare(text, names, times, steps, seeds):
    """Losses of ideas on a text at equal time: ``{name: {"steps": n, "losses": [one per seed]}}``."""
    results = {name: {"steps": round(steps / times[name]), "losses": []} for name in names}
    for (
        seed
    ) in seeds:  # all ideas with one seed first: an interrupted benchmark has compared them all
        for name in names:
            loss = validation_loss(text, IDEAS[name], results[name]["steps"], seed)
            results[name]["losses"].append(loss)
            print(f"  {text.stem}, seed {seed}, {name}: {loss:.4f}", flush=True)
    return results


def with_gains(results):
    """Add mean, spread (standard deviation over seeds), gain over the default and its standard error to ``results``.

    >>> with_gains({"default": {"losses": [2.0, 4.0]}, "idea": {"losses": [1.0, 2.0]}})["idea"]["gain"]
    1.5
    """
    for result in results.values():
        losses = result["losses"]
        differences = [a - b for a, b in zip(results["default"]["losses"], losses)]
        many = len(losses) > 1
        result["mean"] = statistics.mean(losses)
        result["spread"] = statistics.stdev(losses) if many else None
        result["gain"] = statistics.mean(differences)
        error = statistics.stdev(differences) / math.sqrt(len(losses)) if many else None
        result["standard_error"] = error
    return results


def print_results(title, results, times):
    header = ["", "step time", "steps", "loss", "spread", "gain", "standard error"]
    rows = []
    for name, one in sorted(results.items(), key=lambda pair: pair[1]["mean"]):
        figures = [one[key] for key in ("mean", "spread", "gain", "standard_error")]
        figures = [None if figure is None else f"{figure:.4f}" for figure in figures]
        rows.append([name, times[name], one["steps"], *figures])
    print_table(title, header, rows)


def write_texts(folder):
    """The texts to choose on, files in ``folder``; without the second one if it cannot be downloaded."""
    from tinyattn.data import InputError, load_corpus

    texts = {"pydoc": load_corpus("pydoc")}
    try:
        shakespeare = load_corpus("shakespeare")
    except InputError as error:
        print(f"  skipping shakespeare: {error}")
    else:
        texts["shakespeare_training_part"] = shakespeare[: int(0.9 * len(shakespeare))]
    for name, text in texts.items():
        path = Path(folder) / f"{name}.txt"
        path.write_text(text, encoding="utf-8")
        yield path


def run(quick=False):
    steps, seeds = (STEPS // 10, SEEDS[:1]) if quick else (STEPS, SEEDS)
    times = step_times(*((1, 2) if quick else (ROUNDS, CALLS)))
    screened, final = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        texts = list(write_texts(folder))
        for text in texts:
            screened[text.stem] = with_gains(compare(text, list(IDEAS), times, steps, seeds))
            print_results(f"{text.stem}, the time of {steps} steps", screened[text.stem], times)
        if not quick:
            names = ["default", *best(screened)]
            longer = FINAL_FACTOR * steps
            for text in texts:
                final[text.stem] = with_gains(compare(text, names, times, longer, FINAL_SEEDS))
                print_results(f"{text.stem}, the time of {longer} steps", final[text.stem], times)
    return {"step_times": times, "screened": screened, "final": final}


def best(screened):
    """The names of the ideas with the largest gains, summed over texts."""
    gains = {name: sum(one[name]["gain"] for one in screened.values()) for name in IDEAS}
    del gains["default"]
    return sorted(gains, key=gains.get, reverse=True)[:FINALISTS]
