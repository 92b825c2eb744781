"""``tinyattn export``: write the model of a run in the format of another library."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ..data import InputError
from ..data.atomic import write_atomic
from ..data.paths import PathText, expand_path
from ..data.tokenizers import huggingface_files
from ..models import GPT
from ..models.huggingface import to_settings
from ..train.config import as_annotated
from ..train.loading import load_run
from .options import RunArgument, options


@dataclass(frozen=True)
class ExportOptions:
    """Output format and folder."""

    to: Literal["hf"] = "hf"
    """Format: hf, a folder that transformers and tinyattn load as a GPT-2, with its tokenizer."""

    out: PathText | None = None
    """Folder to write; RUN-hf by default [path]."""

    state: Literal["best", "last"] | None = None
    """Saved state to export: best (lowest validation loss) or last; best by default, if there was an evaluation."""


def add_to(app):
    app.command(export)


def export(
    run: RunArgument,
    /,
    *,
    how: Annotated[ExportOptions, options()] = ExportOptions(),
):
    """Write the model of a run as a GPT-2 that other libraries load."""
    how, path = as_annotated(how), Path(expand_path(run, "the run"))
    if how.out:
        out = Path(how.out)
    else:
        named = path if path.name not in ("", "..") else path.resolve()
        out = named.with_name(f"{named.name}-{how.to}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder: give another one with --out")
    loaded = load_run(path, how.state)
    model, tokenizer = loaded.model, loaded.vocabulary
    if type(model) is not GPT:
        raise InputError(
            f"{path} contains a model of the kind {loaded.config.architecture.model}, which GPT-2 cannot express: "
            f"give a run of --model gpt"
        )
    to_settings(model.config)  # raises for a model that GPT-2 cannot express
    for name, text in huggingface_files(tokenizer).items():
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(out / name, text)
    model.save_pretrained(out, end_of_text=tokenizer.end_of_text)
    print(
        f"{out}: the state {loaded.state!r} of {path}, step {loaded.step}; {model.parameter_count():,} parameters of "
        f"{model.dtype}, {len(tokenizer):,} {tokenizer.unit}s\n"
        f"load it with:  transformers.AutoModelForCausalLM.from_pretrained({str(out)!r})\n"
        f"or:            tinyattn sample {shlex.quote(str(out))}"
    )
    return 0
