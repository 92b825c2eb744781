"""Build a model, its task, its optimizers and its training step from a configuration."""

import dataclasses
import math
from fnmatch import fnmatchcase

from ..backend import backend_of, get_backend
from ..data import InputError
from ..models import (
    CNN,
    GPT,
    RNN,
    CNNConfig,
    Encoder,
    EncoderConfig,
    GPTConfig,
    RNNConfig,
    mask_tokens,
    split_for_muon,
)
from ..optim import AdamW, Muon, clip_grad_norm, schedules, weight_decay_groups
from ..optim.clipping import clip_arrays
from .parallel import make_executor
from .precision import LossScale, parameter_dtype
from .step import BatchStep

MODELS = {
    "gpt": (GPT, GPTConfig),
    "encoder": (Encoder, EncoderConfig),
    "rnn": (RNN, RNNConfig),
    "cnn": (CNN, CNNConfig),
}


def build_model(config, vocabulary_size):
    """Build the model of a ``TrainConfig``, its weights drawn from the default random stream.

    Raises:
        ValueError: for incompatible options.
    """
    model_class, config_class = MODELS[config.architecture.model]
    options = dataclasses.asdict(config.architecture)
    names = {one.name for one in dataclasses.fields(config_class)}
    options = {name: value for name, value in options.items() if name in names}
    model = model_class(config_class(vocabulary_size=vocabulary_size, **options))
    return model.to(parameter_dtype(config.run, get_backend().device))


def freeze_parameters(model, patterns):
    """Freeze the parameters whose names match: they get no gradient and no update.

    Args:
        model: a module.
        patterns: patterns with ``*``, separated by commas, such as ``"embedding.*, blocks.0.*"``; None freezes nothing.

    Raises:
        InputError: for a pattern that matches no name, or if all parameters would be frozen.

    >>> from tinyattn import nn
    >>> layer = nn.Linear(2, 3)
    >>> freeze_parameters(layer, "bias")
    >>> layer.weight.requires_grad, layer.bias.requires_grad
    (True, False)
    """
    named = model.named_parameters()
    for pattern in [] if patterns is None else patterns.split(","):
        matching = [pair for pair in named if fnmatchcase(pair[0], pattern.strip())]
        if not matching:
            names = ", ".join(name for name, _ in named[:6])
            raise InputError(
                f"--freeze: no parameter matches {pattern.strip()!r}; the model has {names}, ... ({len(named)} in all)"
            )
        for _, parameter in matching:
            parameter.requires_grad = False
    if not any(parameter.requires_grad for _, parameter in named):
        raise InputError(f"--freeze {patterns} leaves no parameter to train: freeze fewer")


def build_task(model, config):
    """The function that prepares a batch for the model's task: ``(inputs, targets, random) -> (inputs, targets)``.

    None for language models, which predict the next character. An encoder predicts masked characters.
    """
    if config.architecture.model != "encoder":
        return None

    def mask(inputs, targets, random):
        return mask_tokens(inputs, vocabulary_size=model.config.vocabulary_size, random=random)

    return mask


def build_step(model, config, optimizers, communicator=None):
    """Build the ``BatchStep`` of a model and its ``Optimizers``, on the CPU with ``config.run.workers`` workers.

    Raises:
        ValueError: for several MPI processes on a GPU.
    """
    if communicator is not None and model.device != "cpu":
        raise ValueError(f"several MPI processes can train on the CPU only, not on {model.device}")
    executor = make_executor(model, config.run.workers, communicator)
    return BatchStep(
        executor,
        optimizers.members.values(),
        communicator,
        precision=config.run.precision,
        loss_scale=optimizers.loss_scale,
    )


def build_optimizers(model, config):
    """Build the optimizers of a ``TrainConfig`` for a model's parameters."""
    options = config.optimization
    matrices, rest = [], model.named_parameters()
    if options.optimizer == "muon":
        matrices, rest = split_for_muon(model)
    matrices = [{**group, "params": _trained(group["params"])} for group in matrices]
    matrices, rest = [group for group in matrices if group["params"]], _trained(rest)
    members, peaks = {}, {"adamw": options.learning_rate}
    if rest:
        members["adamw"] = AdamW(
            weight_decay_groups(rest, options.weight_decay),
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
        )
    if matrices:
        members["muon"] = Muon(
            matrices,
            lr=options.muon_learning_rate,
            momentum=options.muon_momentum,
            weight_decay=options.muon_weight_decay,
            polynomials=options.muon_polynomials,
        )
        peaks["muon"] = options.muon_learning_rate
    loss_scale = LossScale() if model.dtype == "float16" else None
    return Optimizers(members, peaks, model.parameters(), options, config.run.steps, loss_scale)


def _trained(named_parameters):
    return [pair for pair in named_parameters if pair[1].requires_grad]


@dataclasses.dataclass(eq=False)
class Optimizers:
    """Several optimizers with one learning-rate schedule, gradient clipping and saved state.

    Args:
        members: dict of name to optimizer.
        peaks: dict of name to peak learning rate; that of ``"adamw"`` is reported.
        parameters: all parameters, for gradient clipping.
        options: ``OptimizerOptions``.
        steps: total steps, at the end of which the learning-rate decay ends by default.
        loss_scale: ``LossScale`` of the gradients in float16, or None.

    Attributes:
        skips: whether gradients have overflowed in float16, so that this step updates nothing.
    """

    members: dict
    peaks: dict
    parameters: list
    options: object
    steps: int
    loss_scale: object = None
    skips: bool = dataclasses.field(default=False, init=False)

    def set_learning_rate(self, step):
        """Set the learning rates for ``step`` (from 0); returns AdamW's."""
        fraction = self._fraction_of_peak(step)
        for name, optimizer in self.members.items():
            for group in optimizer.param_groups:
                group["lr"] = self.peaks[name] * fraction
        return self.peaks["adamw"] * fraction

    def _fraction_of_peak(self, step):
        options = self.options
        if options.decay == "none":
            return schedules.constant(step, peak=1.0, warmup=options.warmup_steps)
        return schedules.trapezoid(
            step,
            peak=1.0,
            minimum=options.final_share,
            warmup=options.warmup_steps,
            decay=options.decay_steps or self.steps,
            decay_share=options.decay_share,
            shape=options.decay,
        )

    def clip(self):
        """Clip the norm of the gradients; returns the norm before clipping."""
        most = self.options.clip or math.inf
        buffers = [optimizer.flat_gradients() for optimizer in self.members.values()]
        if None in buffers or backend_of(buffers[0][0]).kind == "cpu":
            return clip_grad_norm(self.parameters, most)
        arrays = [array for arrays in buffers for array in arrays]
        if self.loss_scale is None:
            return clip_arrays(arrays, most)
        for array in arrays:
            array *= 1 / self.loss_scale.value
        # In float16 the host waits: it must know whether to update.
        norm = float(clip_arrays(arrays, most))
        self.loss_scale.update(math.isfinite(norm))
        self.skips = not math.isfinite(norm) and not self.loss_scale.is_exhausted
        return norm

    def step(self, executor):
        """Update all parameters, with the workers of an ``Executor``."""
        if self.skips:
            return
        for optimizer in self.members.values():
            optimizer.step(executor)

    def state(self):
        """The state of the optimizers: a dict of arrays, and a dict of settings that JSON can represent."""
        states = {name: optimizer.state_dict() for name, optimizer in self.members.items()}
        arrays = {
            f"{name}.{array_name}": array
            for name, state in states.items()
            for array_name, array in state["arrays"].items()
        }
        settings = {name: state["settings"] for name, state in states.items()}
        if self.loss_scale is not None:
            settings["loss_scale"] = self.loss_scale.state()
        return arrays, settings

    def load_state(self, arrays, settings):
        """Load a result of ``state``.

        Raises:
            ValueError: if it does not match an optimizer; preceding optimizers are already changed.
        """
        if self.loss_scale is not None:
            self.loss_scale.restore(settings["loss_scale"])
        for name, optimizer in self.members.items():
            own = {
                array_name.removeprefix(f"{name}."): array
                for array_name, array in arrays.items()
                if array_name.startswith(f"{name}.")
            }
            optimizer.load_state_dict({"arrays": own, "settings": settings[name]})
