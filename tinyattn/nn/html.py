"""HTML representation of a module for notebooks: a collapsible tree with settings and parameter counts.

Colors are inherited from the page, so that the text is readable in light and dark themes; all text is escaped.
"""

import html

from .containers import grouped


def module_html(module):
    """HTML of a module and its submodules; neighbors of the same ``repr`` are merged.

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
    parts = [_tree(name, child) for name, child in grouped(children)]
    return (
        f"<details{' open' if is_open else ''}><summary>{heading}</summary>"
        f'<div style="margin-left:1.5em">{"".join(parts)}</div></details>'
    )
