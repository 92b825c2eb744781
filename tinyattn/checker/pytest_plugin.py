"""The pytest plugin: the fixture ``assert_gradients`` for gradient tests, with a seed and a summary.

    def test_softplus(assert_gradients):
        x = assert_gradients.random.standard_normal((3, 4))
        assert_gradients((softplus, softplus_backward), x)

Each run of pytest draws a new seed for inputs and cotangents. The report of a failure has the command that reproduces
it with ``--gradcheck-seed``. The summary counts the verdicts, and the XML of ``--junit-xml`` has a property
``gradcheck`` for each check.
"""

import os

import numpy as np
import pytest

from .check import gradient_report
from .report import CANNOT_TELL, RIGHT, WRONG, GradcheckError, GradcheckInconclusive

_PROPERTY = "gradcheck"


class AssertGradients:
    """The value of the fixture ``assert_gradients``: a callable with a random generator.

    Attributes:
        seed: the seed of the pytest run.
        random: a NumPy generator for this test, independent of other tests.
    """

    def __init__(self, item, seed):
        self._item = item
        self.seed = seed
        self.random = np.random.default_rng([seed, *item.nodeid.encode()])

    def __call__(self, fn, *inputs, **settings):
        """Assert that the gradients of ``fn`` at ``inputs`` are right.

        Args:
            fn: as ``gradcheck`` takes it: a function of tensors of tinyattn, PyTorch or JAX, or a pair
                ``(forward, backward)`` of functions of NumPy arrays.
            inputs: its arguments.
            settings: the keyword arguments of ``gradcheck``, such as ``mode="fast"`` or ``params=module``.

        Returns:
            The ``Report``.

        Raises:
            GradcheckError: if a gradient is wrong; ``GradcheckInconclusive`` if some are inconclusive.
        """
        __tracebackhide__ = True
        settings = {"seed": self.seed, "find_fault": True, **settings}
        try:
            report = gradient_report(fn, inputs, **settings)
            error = report.error()
            if error is not None:
                raise error
        except GradcheckError as error:
            unsure = isinstance(error, GradcheckInconclusive)
            self._note(CANNOT_TELL if unsure else WRONG, str(error).splitlines()[0])
            raise
        checked = sum(argument.checked for argument in report.arguments)
        bars = max((e.bars for a in report.arguments for e in a.worst), default=0.0)
        kinks = f", {len(report.kinks)} kinks not checked" if report.kinks else ""
        self._note(
            RIGHT, f"{report.function}, {checked} checked, within {bars:.1g} error bars{kinks}"
        )
        return report

    def _note(self, verdict, text):
        self._item.user_properties.append((_PROPERTY, f"{verdict}: {text}"))


@pytest.fixture
def assert_gradients(request):
    """Assert that gradients are right: ``assert_gradients(fn, *inputs)``; ``.random`` makes inputs."""
    return AssertGradients(request.node, request.config.option.gradcheck_seed)


def pytest_addoption(parser):
    group = parser.getgroup("gradcheck", "gradient checks")
    group.addoption(
        "--gradcheck-seed",
        type=int,
        metavar="N",
        help="seed of assert_gradients, as reported by a failure; by default a new one in each run",
    )


def pytest_configure(config):
    given = getattr(config, "workerinput", {}).get("gradcheck_seed")  # a worker of pytest-xdist
    seed = config.option.gradcheck_seed if given is None else given
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "little")
    if seed < 0:
        raise pytest.UsageError(f"--gradcheck-seed is {seed}: expected a whole number, 0 or more")
    config.option.gradcheck_seed = seed


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Send the seed of the run to a worker of pytest-xdist."""
    node.workerinput["gradcheck_seed"] = node.config.option.gradcheck_seed


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and any(name == _PROPERTY for name, _ in item.user_properties):
        seed = item.config.option.gradcheck_seed
        again = f"to reproduce: pytest {item.nodeid!r} --gradcheck-seed {seed}"
        report.sections.append(("gradcheck", again))


def pytest_terminal_summary(terminalreporter, config):
    counts = dict.fromkeys((RIGHT, WRONG, CANNOT_TELL), 0)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, value in report.user_properties:
                    if name == _PROPERTY:
                        counts[value.partition(":")[0]] += 1
    if any(counts.values()):
        summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        seed = config.option.gradcheck_seed
        terminalreporter.write_line(f"gradcheck: {summary}; --gradcheck-seed {seed}")
