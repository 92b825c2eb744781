"""Fast versions of the primitives, looked up by primitive and kind of backend; the rules in ``ops`` say what they compute."""

from . import cpu, portable
