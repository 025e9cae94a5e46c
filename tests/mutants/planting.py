"""Mutants planted into the loaded modules, for tests in one process."""

import importlib
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

import pytest

from tests.mutants.catalogue import Mutant
from tests.mutants.patching import patched_files


def plant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the code of the functions that the mutant edits."""
    for file, text in patched_files(mutant).items():
        module = importlib.import_module(f"creekdb.{file.removesuffix('.py').replace('/', '.')}")
        edited = dict(_codes(compile(text, file, "exec")))
        original = dict(_codes(compile(_source(module), file, "exec")))
        for function in _functions(module):
            name = function.__qualname__
            if name in edited and edited[name] != original[name]:
                monkeypatch.setattr(function, "__code__", edited[name])


def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each.co_qualname, each
            yield from _codes(each)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        is_class = isinstance(value, type) and value.__module__ == module.__name__
        for member in (value, *(vars(value).values() if is_class else ())):
            function = member.fget if isinstance(member, property) else member
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function
