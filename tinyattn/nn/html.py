"""A module as a notebook shows it: a tree that opens and closes, each part with its settings and parameters.

Colours are the page's own, so that light and dark themes both have their contrast; every text is escaped.
"""

import html
import itertools


def module_html(module):
    """HTML of a module and all below it; neighbours that read alike are shown once.

    >>> from tinyattn import nn
    >>> "Linear(2, 3), 9 parameters" in module_html(nn.Sequential(nn.Linear(2, 3)))
    True
    """
    content = _tree("", module, is_open=True)
    return f'<div style="font-family:monospace;color:inherit;background:none">{content}</div>'


def _tree(label, module, is_open=False):
    count = module.parameter_count()
    text = f"{type(module).__name__}({module.extra_repr()})"
    text += f", {count:,} parameters" if count else ""
    heading = (f"<b>{html.escape(label)}</b> " if label else "") + html.escape(text)
    children = module.named_children()
    if not children:
        return f"<div>{heading}</div>"
    parts = []
    for _, group in itertools.groupby(children, key=lambda child: repr(child[1])):
        names = [(name, child) for name, child in group]
        (first, child), (last, _) = names[0], names[-1]
        parts.append(_tree(first if first == last else f"{first} to {last}", child))
    return (
        f"<details{' open' if is_open else ''}><summary>{heading}</summary>"
        f'<div style="margin-left:1.5em">{"".join(parts)}</div></details>'
    )
