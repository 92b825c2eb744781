"""Mutation operators: small changes to the syntax tree of a function that imitate common mistakes.

They change operators, terms and factors, signs, axes, transposes, constants, accumulations and conditions. They do not
change docstrings, error messages, or the conditions under which a function raises or a kernel declines.
"""

import ast
import copy
from dataclasses import dataclass

SWAPPED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
SWAPPED_NAMES = {
    "sum": "mean",
    "mean": "sum",
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "min": "max",
    "multiply": "divide",
    "add": "subtract",
    "subtract": "add",
}
TRANSPOSES = {"swapaxes", "transpose"}


@dataclass(frozen=True)
class Change:
    """One mutant of a function: the kind of change, its line, and the statement before and after (its first line)."""

    kind: str
    line: int
    before: str
    after: str
    tree: ast.Module


def changes(tree):
    """All ``Change``s of a module that consists of one function."""
    found = []
    for path, node in _places(tree):
        statement = max(
            length
            for length in range(len(path) + 1)
            if isinstance(_at(tree, path[:length]), ast.stmt)
        )
        for kind, new in _replacements(node):
            changed = copy.deepcopy(tree)
            _put(changed, path, new)
            ast.fix_missing_locations(changed)
            before = _text(_at(tree, path[:statement]))
            after = _text(_at(changed, path[:statement]))
            if before != after:
                found.append(Change(kind, node.lineno, before, after, changed))
    return found


def _at(tree, path):
    node = tree.body[0]
    for name, position in path:
        value = getattr(node, name)
        node = value if position is None else value[position]
    return node


def _places(tree):
    """``(path, node)`` for each statement and expression that can be mutated, in source order."""
    stack, places = [((), tree.body[0])], []
    while stack:
        path, node = stack.pop()
        if path and isinstance(node, (ast.expr, ast.stmt)):
            places.append((path, node))
        children = []
        for name, value in ast.iter_fields(node):
            if name in _UNTOUCHED.get(type(node), ()) or _is_guard(node, name):
                continue
            if isinstance(value, list):
                children += [((*path, (name, i)), child) for i, child in enumerate(value)]
            else:
                children.append(((*path, (name, None)), value))
        stack += [(p, c) for p, c in reversed(children) if isinstance(c, ast.AST)]
    return places


_UNTOUCHED = {
    ast.FunctionDef: ("args", "decorator_list", "returns"),
    ast.Raise: ("exc", "cause"),
    ast.JoinedStr: ("values",),
    ast.Assert: ("test", "msg"),
}


def _is_guard(node, field):
    """Whether a field belongs to an ``if`` that only raises or returns NotImplemented."""
    if not (isinstance(node, ast.If) and field in ("test", "body")):
        return False
    return all(
        isinstance(statement, ast.Raise)
        or (
            isinstance(statement, ast.Return)
            and isinstance(statement.value, ast.Name)
            and statement.value.id == "NotImplemented"
        )
        for statement in node.body
    )


def _replacements(node):
    if isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield "drop a sign", node.operand
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negate a condition", node.operand
    elif isinstance(node, ast.AugAssign):
        yield "skip an accumulation", ast.Pass()
        if type(node.op) in SWAPPED:
            yield "swap an operator", _with(node, op=SWAPPED[type(node.op)]())
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "skip a statement", ast.Pass()
    elif isinstance(node, ast.Return) and _is_number(node.value):
        yield (
            "change the sign of the result",
            _with(node, value=ast.UnaryOp(ast.USub(), node.value)),
        )
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "drop a transpose", node.value
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, (ast.If, ast.IfExp)) and not _is_guard(node, "test"):
        yield "negate a condition", _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def _of_operation(node):
    if type(node.op) in SWAPPED:
        yield "swap an operator", _with(node, op=SWAPPED[type(node.op)]())
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield "drop a term", node.left
        yield "drop a term", node.right
    elif isinstance(node.op, (ast.Mult, ast.Div)):
        yield "drop a factor", node.left
        if isinstance(node.op, ast.Mult):
            yield "drop a factor", node.right


def _of_call(node):
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    if name in SWAPPED_NAMES and isinstance(node.func, ast.Attribute):
        yield "swap a function", _with(node, func=_with(node.func, attr=SWAPPED_NAMES[name]))
    if name in TRANSPOSES:
        if isinstance(node.func, ast.Name) or _is_module(node.func.value):
            yield "drop a transpose", node.args[0]
        else:
            yield "drop a transpose", node.func.value
    for position, keyword in enumerate(node.keywords):
        if keyword.arg == "axis" and not isinstance(keyword.value, ast.Constant):
            if isinstance(keyword.value, ast.UnaryOp):
                wrong = ast.Constant(0)
            else:
                wrong = ast.UnaryOp(ast.USub(), ast.Constant(1))
            keywords = list(node.keywords)
            keywords[position] = ast.keyword("axis", wrong)
            yield "change an axis", _with(node, keywords=keywords)


def _of_constant(node):
    if isinstance(node.value, bool):
        yield "alter a constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "alter a constant", ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield "alter a constant", ast.Constant(node.value * 1.5 + 0.1)


def _is_number(value):
    """Whether a returned expression can be negated: arithmetic, a call or a subscript."""
    return isinstance(value, (ast.BinOp, ast.Call, ast.Subscript))


def _is_module(node):
    return isinstance(node, ast.Name) and node.id in ("xp", "np", "numpy")


def _with(node, **fields):
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _put(tree, path, new):
    """Replace the node at ``path`` by a copy of ``new``."""
    owner = _at(tree, path[:-1])
    name, position = path[-1]
    if position is None:
        setattr(owner, name, copy.deepcopy(new))
    else:
        getattr(owner, name)[position] = copy.deepcopy(new)


def _text(node):
    """A statement as one line; of a compound statement only the header."""
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    if isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
        text = text.splitlines()[0]
    return " ".join(text.split())
