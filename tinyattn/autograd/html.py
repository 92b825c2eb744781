"""HTML representation of a tensor for notebooks.

Colors are inherited from the page, so that the text is readable in light and dark themes; all text is escaped.
"""

import html

import numpy as np

# Maximum number of rows and columns of a table; longer axes show the first and last four.
_SHOWN = 8


def tensor_html(tensor):
    """HTML of a tensor: shape, dtype, device, and its elements (of a large tensor those at the edges).

    >>> from tinyattn import tensor
    >>> "float32 on cpu" in tensor_html(tensor([1.0, 2.0]))
    True
    """
    facts = [f"shape {tuple(tensor.shape)}", f"{tensor.dtype} on {tensor.device}"]
    if tensor._node is not None:
        facts.append(f"made by {tensor._node.primitive.name}")
    elif tensor.requires_grad:
        facts.append("requires a gradient")
    heading = f"<b>{html.escape(type(tensor).__name__)}</b> " + html.escape(", ".join(facts))
    host = tensor.numpy()
    if host.ndim <= 2 and host.size:
        content = _table(host.reshape((1,) * (2 - host.ndim) + host.shape))
    else:
        text = np.array2string(host, precision=4, threshold=2 * _SHOWN, edgeitems=2, separator=" ")
        content = f'<pre style="{_INHERIT};margin:0">{html.escape(text)}</pre>'
    return f'<div style="{_INHERIT}">{heading}{content}</div>'


_INHERIT = "color:inherit;background:none"


def _table(matrix):
    """The table of a matrix (rows, columns)."""
    rows, columns = (_shown(length) for length in matrix.shape)
    lines = []
    for row in rows:
        cells = "".join(
            f'<td style="text-align:right;{_INHERIT}">{_number(matrix, row, column)}</td>'
            for column in columns
        )
        lines.append(f'<tr style="{_INHERIT}">{cells}</tr>')
    return f'<table style="font-family:monospace;width:auto;margin:0;{_INHERIT}">{"".join(lines)}</table>'


def _shown(length):
    """The displayed positions of an axis; None stands for omitted ones."""
    if length <= _SHOWN:
        return list(range(length))
    half = _SHOWN // 2
    return [*range(half), None, *range(length - half, length)]


def _number(matrix, row, column):
    if row is None or column is None:
        return "…"
    value = matrix[row, column]
    return html.escape(f"{value:.4g}" if value.dtype.kind in "fc" else str(value))
