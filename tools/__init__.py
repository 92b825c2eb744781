"""Tools for work on the library; they are not installed with it."""
