"""Parsing and formatting of scalars, vectors and matrices."""

import numpy as np


def parse_array(text, name, axes=(1,)):
    """Parse a float64 array: numbers separated by spaces or commas, rows by semicolons.

    Args:
        text: for instance ``"1 2 3"`` or ``"1 0; 0 1"``; arrays and lists are converted.
        name: name for error messages, for instance ``"--x"``.
        axes: allowed numbers of axes, a subset of (0, 1, 2).

    Raises:
        ValueError: for other text, elements that are not finite, and a wrong number of axes.

    >>> parse_array("1, 2.5; 3 -4", "--x", axes=(2,))
    array([[ 1. ,  2.5],
           [ 3. , -4. ]])
    """
    if isinstance(text, str):
        rows = [row.replace(",", " ").split() for row in text.split(";")]
        for word in (word for row in rows for word in row):
            if not _is_number(word):
                raise ValueError(
                    f"{name} {text!r}: {word!r} is not a finite number; expected numbers separated by spaces "
                    "or commas, and rows by semicolons"
                )
        if len({len(row) for row in rows}) != 1 or not rows[0]:
            lengths = ", ".join(str(len(row)) for row in rows)
            raise ValueError(
                f"{name} {text!r}: rows of {lengths} numbers; expected rows of equal length"
            )
        values = np.array(rows, dtype=np.float64)
        if len(rows) == 1:
            values = values[0] if 1 in axes else values
            if 0 in axes and values.size == 1:
                values = values.reshape(-1)[0]
    else:
        values = np.array(text, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has elements that are not finite")
    if np.ndim(values) not in axes:
        wanted = " or ".join(
            {0: "one number", 1: "a row of numbers", 2: "a matrix"}[n] for n in axes
        )
        raise ValueError(f"{name} {text!r} has shape {np.shape(values)}: expected {wanted}")
    return np.asarray(values)


def format_array(values, digits=4):
    """Format an array of up to two axes as lines with aligned columns.

    >>> format_array([0.25, -1.0, 12.5])
    ['[ 0.2500  -1.0000  12.5000]']
    >>> format_array(1e-12)
    ['1.0e-12']
    """
    values = np.asarray(values)
    if values.ndim == 0 and values.dtype.kind in "iu":
        return [str(values)]
    values = values.astype(np.float64)
    if values.ndim == 0:
        return [_format_number(float(values), digits)]
    texts = [[_format_number(float(v), digits) for v in row] for row in np.atleast_2d(values)]
    width = max(len(text) for row in texts for text in row)
    return ["[" + "  ".join(text.rjust(width) for text in row) + "]" for row in texts]


def _format_number(value, digits):
    if value == 0:
        return f"{0:.{digits}f}"  # without the sign of -0
    if abs(value) < 0.5 * 10.0**-digits or abs(value) >= 1e6:
        return f"{value:.1e}" if np.isfinite(value) else str(value)
    return f"{value:.{digits}f}"


def _is_number(word):
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False
