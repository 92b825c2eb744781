"""From a configuration to a model, its task, its optimisers and its step."""

import dataclasses
import math

from ..backend import backend_of
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
from .step import BatchStep

MODELS = {
    "gpt": (GPT, GPTConfig),
    "encoder": (Encoder, EncoderConfig),
    "rnn": (RNN, RNNConfig),
    "cnn": (CNN, CNNConfig),
}


def build_model(config, vocabulary_size):
    """The model of a ``TrainConfig``, its weights drawn from the default random stream.

    Raises:
        ValueError: for options that do not go together.
    """
    model_class, config_class = MODELS[config.architecture.model]
    options = dataclasses.asdict(config.architecture)
    names = {one.name for one in dataclasses.fields(config_class)}
    options = {name: value for name, value in options.items() if name in names}
    model = model_class(config_class(vocabulary_size=vocabulary_size, **options))
    return model.to(config.run.dtype)


def build_task(model, config):
    """What the model's task makes of a batch: ``(inputs, targets, random) -> (inputs, targets)``.

    None for models that predict the next character: the batch is what they need. An encoder gets some
    characters masked and predicts those.
    """
    if config.architecture.model != "encoder":
        return None

    def mask(inputs, targets, random):
        return mask_tokens(inputs, vocabulary_size=model.config.vocabulary_size, random=random)

    return mask


def build_step(model, config, optimizers, communicator=None):
    """The ``BatchStep`` of a model and its ``Optimizers``, on the CPU with ``config.run.workers`` workers.

    Raises:
        ValueError: for several MPI processes on a GPU.
    """
    if communicator is not None and model.device != "cpu":
        raise ValueError(f"several processes train on the CPU only, not on {model.device}")
    executor = make_executor(model, config.run.workers, communicator)
    return BatchStep(executor, optimizers.members.values(), communicator)


def build_optimizers(model, config):
    """The optimisers of a ``TrainConfig`` over a model's parameters."""
    options = config.optimization
    matrices, rest = [], model.named_parameters()
    if options.optimizer == "muon":
        matrices, rest = split_for_muon(model)
    members = {
        "adamw": AdamW(
            weight_decay_groups(rest, options.weight_decay),
            lr=options.learning_rate,
            betas=(options.beta1, options.beta2),
        )
    }
    peaks = {"adamw": options.learning_rate}
    if matrices:
        members["muon"] = Muon(
            matrices,
            lr=options.muon_learning_rate,
            momentum=options.muon_momentum,
            weight_decay=options.muon_weight_decay,
        )
        peaks["muon"] = options.muon_learning_rate
    return Optimizers(members, peaks, model.parameters(), options, config.run.steps)


class Optimizers:
    """Several optimisers that share a schedule, the clipping, and a saved state.

    Args:
        members: dict of name to optimiser, ``"adamw"`` among them.
        peaks: dict of name to largest learning rate.
        parameters: all parameters, for the clipping.
        options: ``OptimizerOptions``.
        steps: steps in all, at the end of which the learning rate has come down.
    """

    def __init__(self, members, peaks, parameters, options, steps):
        self.members = members
        self.peaks = peaks
        self.parameters = parameters
        self.options = options
        self.decay_steps = options.decay_steps or steps

    def set_learning_rate(self, step):
        """Set the rates for ``step`` (from 0); returns AdamW's."""
        share = self.learning_rate_share(step)
        for name, optimizer in self.members.items():
            for group in optimizer.param_groups:
                group["lr"] = self.peaks[name] * share
        return self.peaks["adamw"] * share

    def learning_rate_share(self, step):
        """The learning rate at ``step`` (from 0) as a share of the largest."""
        options = self.options
        if options.decay == "none":
            return schedules.constant(step, peak=1.0, warmup=options.warmup_steps)
        return schedules.trapezoid(
            step,
            peak=1.0,
            minimum=options.final_share,
            warmup=options.warmup_steps,
            decay=self.decay_steps,
            decay_share=options.decay_share,
            shape=options.decay,
        )

    def clip(self):
        """Scale the gradients down to the largest norm allowed; returns the norm they had."""
        most = self.options.clip or math.inf
        buffers = [optimizer.flat_gradients() for optimizer in self.members.values()]
        if None in buffers or backend_of(buffers[0][0]).kind == "cpu":
            return clip_grad_norm(self.parameters, most)
        return clip_arrays([array for arrays in buffers for array in arrays], most)

    def step(self, executor):
        """Update all parameters, by the workers of an ``Executor``."""
        for optimizer in self.members.values():
            optimizer.step(executor)

    def state(self):
        """What the optimisers remember: a dict of arrays, and a dict that JSON can hold."""
        states = {name: optimizer.state_dict() for name, optimizer in self.members.items()}
        arrays = {
            f"{name}.{array_name}": array
            for name, state in states.items()
            for array_name, array in state["arrays"].items()
        }
        return arrays, {name: state["settings"] for name, state in states.items()}

    def load_state(self, arrays, settings):
        """Go on from what ``state`` gave.

        Raises:
            ValueError: where it does not fit; the optimisers that come before are then already changed.
        """
        for name, optimizer in self.members.items():
            own = {
                array_name.removeprefix(f"{name}."): array
                for array_name, array in arrays.items()
                if array_name.startswith(f"{name}.")
            }
            optimizer.load_state_dict({"arrays": own, "settings": settings[name]})
