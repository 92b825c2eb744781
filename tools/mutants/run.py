"""Run mutants one after the other, in this process."""

import contextlib
import inspect
from dataclasses import dataclass

import numpy as np

from tinyattn.mutation.mutants import mutants as mutants_of
from tinyattn.mutation.rewrite import running
from tinyattn.mutation.score import time_limit

from .checks import check_kernel, check_rule
from .equivalent import reason_for
from .targets import DEVICE_OF_KIND, find_targets

SECONDS = 20  # a mutant that runs longer is assumed not to terminate, and counts as killed


@dataclass
class Mutant:
    """One changed function."""

    target: object
    change: object
    code: object

    @property
    def key(self):
        """The identity of the mutant: the function's name, and the statement before and after."""
        return f"{self.target.name}: {self.change.before}  ->  {self.change.after}"

    @property
    def reason(self):
        """Why this mutant is equivalent to the original, or None."""
        return reason_for(self.key)

    def is_killed(self):
        """The message of the first check that fails, or None if the mutant survives."""
        with running(self.target.function, self.code), _caches_cleared(self.target.function):
            try:
                with time_limit(SECONDS), np.errstate(all="ignore"):
                    for name, version in self.target.used_by:
                        if version == "rule":
                            check_rule(name)
                        else:
                            check_kernel(name, version)
            except Exception as error:
                return f"{type(error).__name__}: {error}".splitlines()[0]
        return None


def find_mutants(pattern=""):
    """All mutants of functions whose names contain ``pattern``, without duplicates."""
    mutants, seen = [], set()
    for target in find_targets():
        if pattern in target.name:
            for change, code in mutants_of(target.function):
                mutant = Mutant(target, change, code)
                same_text = (mutant.key, change.line)
                if same_text not in seen:
                    seen.add(same_text)
                    mutants.append(mutant)
    return mutants


def check_the_checks(mutants):
    """Run the checks on the unchanged functions: if they failed, a kill would mean nothing."""
    users = {user for mutant in mutants for user in mutant.target.used_by}
    for name, version in sorted(users):
        with np.errstate(all="ignore"):
            if version == "rule":
                check_rule(name)
            elif version in DEVICE_OF_KIND:
                check_kernel(name, version)


@contextlib.contextmanager
def _caches_cleared(function):
    """Clear memoized results before and after the block."""
    caches = [
        value
        for value in function.__globals__.values()
        if hasattr(value, "cache_clear")
        and hasattr(value, "__wrapped__")
        and inspect.unwrap(value).__module__.startswith("tinyattn.kernels")
    ]
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()
