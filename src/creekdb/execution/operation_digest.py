"""Digests of the code of operations, by which replicas detect that their modules differ.

A digest covers the text of the operation and of its footprint. It covers the functions, classes and
assignments that these use, directly or indirectly, in the same module or directory. It also covers
the values of constants in the module of the operation.

It does not depend on formatting, comments, docstrings, annotations of parameters and variables, the
order of definitions, or the Python version as far as its grammar permits. It is derived from the
source file, so compiled and interpreted modules have the same digest.

It does not cover imported packages, files, the state of objects, or changes by method calls during
the import. Two operations with different text may behave alike.
"""

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Final, NamedTuple

from creekdb.execution.datatype import DataType

DIGEST_BYTES: Final = 8
"""Size of a digest. It detects accidents, not attacks."""
NO_DIGEST: Final = b""
"""Digest of an operation without a readable source file."""
_IGNORED_FIELDS: Final = frozenset(("annotation", "ctx", "kind", "returns", "type_comment"))
_WITH_DOCSTRING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def operation_digests(datatype: DataType) -> dict[str, bytes]:
    """Return the digest of each operation, or `NO_DIGEST` for one without a source file."""
    sources = _Sources()
    return {name: _digest(datatype, name, sources) for name in datatype.operations}


class _Reference(NamedTuple):
    """Use of a name, with the attributes that follow it, such as `prices.discount`."""

    name: str
    attributes: tuple[str, ...] = ()


class _Source:
    """Top-level statements of a module, by the names that they define, and its imports."""

    def __init__(self, module: str, path: Path, tree: ast.Module) -> None:
        self.module = module
        self.package = module if path.stem == "__init__" else module.rpartition(".")[0]
        self.path = path
        self.statements = tree.body
        self.defining: dict[str, list[int]] = {}
        """Indices of the statements that define each name."""
        self.imports: dict[str, tuple[str, str | None]] = {}
        """Module and attribute of each imported name. The attribute is None for a module."""
        self.star_imports: list[str] = []
        for index, statement in enumerate(tree.body):
            for name in dict.fromkeys(_defined_names(statement)):
                self.defining.setdefault(name, []).append(index)
        for node in ast.walk(tree):
            self._add_import(node)

    def _add_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                module = each.name if each.asname else each.name.partition(".")[0]
                self.imports[each.asname or module] = module, None
        elif isinstance(node, ast.ImportFrom):
            module = self._absolute_name(node)
            for each in node.names:
                if each.name == "*":
                    self.star_imports.append(module)
                else:
                    self.imports[each.asname or each.name] = module, each.name

    def __contains__(self, name: str) -> bool:
        return name in self.defining or name in self.imports or bool(self.star_imports)

    def _absolute_name(self, node: ast.ImportFrom) -> str:
        try:
            return resolve_name("." * node.level + (node.module or ""), self.package)
        except ImportError:  # a relative import outside a package fails when it is executed
            return ""

    def statements_at(self, line: int) -> list[int]:
        """Return the index of the statement that contains the line, or nothing."""
        return [
            index
            for index, each in enumerate(self.statements)
            if _first_line(each) <= line <= (each.end_lineno or 0)
        ]


class _Sources:
    """Source files of imported modules, each parsed once."""

    def __init__(self) -> None:
        self._parsed: dict[str, _Source | None] = {}

    def get(self, module: str) -> _Source | None:
        """Return the source of an imported module, or None if it cannot be read."""
        if module not in self._parsed:
            self._parsed[module] = _read_source(module, _source_path(module))
        return self._parsed[module]

    def neighbour(self, module: str, of: _Source) -> _Source | None:
        """Return the source of a module in the same directory. It may not be imported yet."""
        package, _, name = module.rpartition(".")
        path = _source_path(module)
        if path is None and package == of.package:
            path = of.path.with_name(f"{name}.py")
        if path is None or path.parent != of.path.parent:
            return None
        if module not in self._parsed:
            self._parsed[module] = _read_source(module, path)
        return self._parsed[module]


def _read_source(module: str, path: Path | None) -> _Source | None:
    try:
        return None if path is None else _Source(module, path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None


def _source_path(module: str) -> Path | None:
    """Return the path of the source. It is beside the library of a compiled module."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str):
        return None
    path = Path(file)
    return path if path.suffix == ".py" else path.with_name(f"{path.name.partition('.')[0]}.py")


def _digest(datatype: DataType, name: str, sources: _Sources) -> bytes:
    collector = _Collector(sources)
    collector.add_text(f"readonly={datatype.is_readonly(name)} steps={datatype.steps}")
    function, *footprint = datatype.functions(name)
    if not collector.add_function(function):
        return NO_DIGEST
    for each in footprint:
        collector.add_function(each)
    return collector.digest()


class _Collector:
    """Digest over a function and everything that it uses, in the order in which it is found."""

    def __init__(self, sources: _Sources) -> None:
        self._sources = sources
        self._hash = hashlib.sha256()
        self._seen: set[tuple[str, int]] = set()
        self._module: str | None = None
        """Module of the operation."""

    def digest(self) -> bytes:
        return self._hash.digest()[:DIGEST_BYTES]

    def add_text(self, text: str) -> None:
        self._hash.update(text.encode(errors="backslashreplace") + b"\0")

    def add_function(self, function: Any) -> bool:
        """Add the statement that defines a function. Return False if its source is unknown."""
        function = inspect.unwrap(function)
        if isinstance(function, functools.partial):
            self._add_value(function.args)
            return self.add_function(function.func)
        if not (inspect.isroutine(function) or inspect.isclass(function)):
            function = type(function)  # an object with __call__
        source = self._sources.get(getattr(function, "__module__", None) or "")
        if source is None:
            return False
        self._module = self._module or source.module
        name = function.__qualname__.partition(".")[0]
        code = getattr(function, "__code__", None)
        indices = source.defining.get(name, [])
        if not indices and code is not None:
            indices = source.statements_at(code.co_firstlineno)
        if not indices:
            return False
        for index in indices:
            self._add_statement(source, index)
        for cell in getattr(function, "__closure__", None) or ():
            self._add_cell(cell)
        return True

    def _add_cell(self, cell: Any) -> None:
        """Add the value of a variable of an enclosing function."""
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return
        if inspect.isfunction(value):
            self.add_function(value)
        else:
            self._add_value(value)

    def _add_value(self, value: Any) -> None:
        text = _plain_text(value)
        if text is not None:
            self.add_text(text)

    def _add_statement(self, source: _Source, index: int) -> None:
        if (source.module, index) in self._seen:
            return
        self._seen.add((source.module, index))
        statement = source.statements[index]
        self.add_text(" ".join(_canonical(statement, in_class=False)))
        if source.module == self._module and not isinstance(statement, _WITH_DOCSTRING):
            values = vars(sys.modules[source.module])
            for name in dict.fromkeys(_defined_names(statement)):
                self._add_value(values.get(name))
        for reference in dict.fromkeys(_references(statement)):
            self._add_reference(source, reference)

    def _add_reference(self, source: _Source, reference: _Reference) -> None:
        name, attributes = reference
        if name in source.defining:
            for index in source.defining[name]:
                self._add_statement(source, index)
        elif name in source.imports:
            module, attribute = source.imports[name]
            self._add_import(source, module, (attribute, *attributes) if attribute else attributes)
        else:
            for module in source.star_imports:
                self._add_import(source, module, (name, *attributes))

    def _add_import(self, source: _Source, module: str, attributes: tuple[str, ...]) -> None:
        """Add what `attributes` name in an imported module, or all of it if there are none."""
        other = self._sources.neighbour(module, source) if module else None
        if other is not None and attributes and attributes[0] in other:
            self._add_reference(other, _Reference(attributes[0], attributes[1:]))
        elif attributes:
            self._add_import(source, f"{module}.{attributes[0]}", attributes[1:])
        elif other is not None:
            for index in range(len(other.statements)):
                self._add_statement(other, index)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement defines, or whose items it assigns."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, _WITH_DOCSTRING):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            changed: ast.expr = node
            while isinstance(changed, ast.Subscript | ast.Attribute):
                changed = changed.value
            pending.append(changed)
            if isinstance(changed, ast.Name):
                yield changed.id
        elif not isinstance(node, ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def _references(node: ast.AST) -> Iterator[_Reference]:
    """Yield the uses of names in the text that the digest covers."""
    attributes: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        attributes.insert(0, inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield _Reference(inner.id, tuple(attributes))
        return
    for field, value in ast.iter_fields(inner):
        if field in _IGNORED_FIELDS:
            continue
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST):
                yield from _references(child)


def _canonical(node: Any, in_class: bool) -> Iterator[str]:
    """Yield the words of a text that is equal for equal code.

    Absent fields are left out, because a newer Python has more of them.
    """
    if isinstance(node, ast.AnnAssign) and not in_class:
        if node.value is None:
            return
        node = ast.Assign([node.target], node.value)
    if isinstance(node, list):
        yield "["
        for each in node:
            yield from _canonical(each, in_class)
        yield "]"
    elif isinstance(node, ast.Constant):
        yield f"{type(node.value).__name__}:{node.value!a}"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        inside = isinstance(node, ast.ClassDef) or (in_class and not isinstance(node, _FUNCTIONS))
        for field, value in ast.iter_fields(node):
            is_kept = field == "annotation" and isinstance(node, ast.AnnAssign)
            if value is None or value == [] or (field in _IGNORED_FIELDS and not is_kept):
                continue
            if field == "body" and isinstance(node, _WITH_DOCSTRING):
                value = _without_docstring(value)
            yield f"{field}="
            yield from _canonical(value, inside)
        yield ")"
    else:
        yield ascii(node)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def _plain_text(value: Any) -> str | None:
    """Return the text of an immutable value, or None for another object."""
    if type(value) in (bool, int, float, str, bytes):
        return f"{type(value).__name__}:{value!a}"
    if type(value) in (tuple, frozenset):
        texts = [_plain_text(each) for each in value]
        known = [each for each in texts if each is not None]
        if len(known) == len(texts):
            ordered = known if type(value) is tuple else sorted(known)
            return f"{type(value).__name__}({', '.join(ordered)})"
    return None
