"""Finds the places where a random bug can be put into a module, and puts it there.

A change replaces the text of one syntax node. What cannot change behaviour (annotations, docstrings, messages in
f-strings, logging) is left alone, and so is what would only break the types of what is around it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
}
_TEXT_OR_LIST = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_KEEP_CALLS = {
    "len", "isinstance", "issubclass", "range", "enumerate", "zip", "list", "tuple", "set", "dict", "frozenset", "str",
    "int", "float", "bool", "repr", "print", "super", "iter", "next", "getattr", "setattr", "hasattr", "type", "cast",
    "any", "all", "sum", "map", "filter", "field", "replace",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One possible bug: bytes `start` to `end` of a file become `text`. `lines` are those of its statement."""

    file: str
    scope: str
    kind: str
    start: int
    end: int
    text: str
    lines: range
    at_import: bool

    def apply(self, source: bytes) -> bytes:
        """Return the source with the bug in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def changes_of(file: str, source: bytes) -> list[Change]:
    """List every change of a module. Not all of them compile: see `is_a_change`."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.found


def is_a_change(change: Change, source: bytes) -> bool:
    """Tell whether the mutated module compiles and means something else."""
    try:
        mutated = compile(change.apply(source), change.file, "exec")
    except SyntaxError:
        return False
    return mutated != compile(source, change.file, "exec")


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, source: bytes) -> None:
        self.found: list[Change] = []
        self._file = file
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._functions = 0
        self._lines = range(0)

    def visit(self, node: ast.AST) -> None:
        """Collect the changes of a node, then of what it holds."""
        if _is_silent(node):
            return
        before = self._lines
        if isinstance(node, ast.stmt):
            self._lines = _own_lines(node)
        for kind, replacement in _replacements(node, inside=self._functions > 0):
            self._add(kind, node, replacement)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(
            node.test, ast.Name | ast.Attribute | ast.Call
        ):
            self._add("condition negated", node.test, ast.UnaryOp(ast.Not(), node.test))
        self._descend(node)
        self._lines = before

    def _descend(self, node: ast.AST) -> None:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, _SCOPES):
            self._scope.append(node.name)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
                continue
            # Defaults of parameters are evaluated at the import, the body is not.
            self._functions += is_function and name == "body"
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)
            self._functions -= is_function and name == "body"
        if isinstance(node, _SCOPES):
            self._scope.pop()

    def _add(self, kind: str, node: ast.AST, replacement: ast.AST) -> None:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        text = ast.unparse(replacement)
        if isinstance(replacement, ast.expr) and not isinstance(replacement, ast.Constant | ast.Name | ast.Call):
            text = f"({text})"
        self.found.append(
            Change(
                self._file,
                ".".join(self._scope) or "<module>",
                kind,
                self._starts[node.lineno - 1] + node.col_offset,
                self._starts[node.end_lineno - 1] + node.end_col_offset,
                text,
                self._lines,
                self._functions == 0,
            )
        )


def _is_silent(node: ast.AST) -> bool:
    """Tell what is no behaviour: texts, type aliases, exports, logging, and nodes without a true position."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.BitOr()) | ast.Subscript()):
            return name[:1].isupper() and not name.isupper()
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name.strip("_").lower() in ("log", "logger")
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _own_lines(node: ast.stmt) -> range:
    """The lines of a statement; of a compound one only its head."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return range(node.lineno, max(node.lineno + 1, body[0].lineno))
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _replacements(node: ast.AST, *, inside: bool) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.stmt):
        if inside:
            yield from _statements(node)
    elif isinstance(node, ast.expr):
        yield from _operators(node)
        yield from _values(node)


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield "statement removed", ast.Pass()
        case ast.Return() | ast.Continue() | ast.Break():
            yield "early exit removed", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement removed", ast.Pass()


def _operators(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARISONS[type(op)]:
                yield "comparison", _with(node, ops=[other()])
        case ast.BoolOp(op=op):
            yield "and/or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for place in range(len(node.values)):
                rest = node.values[:place] + node.values[place + 1 :]
                yield "condition removed", rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            if not any(_is_text_or_list(side) for side in (left, right)):
                yield "arithmetic", _with(node, op=_ARITHMETIC[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation removed", operand
        case ast.IfExp(body=body, orelse=other):
            yield "condition ignored", body
            yield "condition ignored", other


def _values(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "constant", ast.Constant(value + 1)
            yield "constant", ast.Constant(value - 1)
        case ast.Call(func=ast.Name(id=name), args=[first, *others]) if name not in _KEEP_CALLS and name[0].islower():
            for argument in [first, *others][:2]:
                if not isinstance(argument, ast.Starred | ast.GeneratorExp | ast.Lambda):
                    yield "call replaced by its argument", argument
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if node.generators[0].ifs:
            changed = copy.deepcopy(node)
            changed.generators[0].ifs.pop()
            yield "filter removed", changed
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield "argument removed", _with(node, keywords=[other for other in node.keywords if other != keyword])


def _is_text_or_list(node: ast.expr) -> bool:
    return isinstance(node, _TEXT_OR_LIST) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
