"""Fast versions of the primitives, looked up by primitive and kind of backend; the rules say what they compute."""

from . import cpu, cuda, portable
