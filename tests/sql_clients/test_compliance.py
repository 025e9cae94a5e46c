"""A part of SQLAlchemy's compliance suite, and its expected failures."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import testing

from tests.sql_clients import compliance
from tests.sql_clients.compliance_requirements import EXPECTED_FAILURES

SUITE = Path(testing.__file__).parent / "suite"
PART = ("CTETest", "InsertBehaviorTest", "SimpleUpdateDeleteTest", "QuotedNameArgumentTest")
"""Classes of the suite. The last one has an expected failure."""


def test_a_part_of_the_suite_has_no_unexpected_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = compliance.main(["-k", " or ".join(PART)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "QuotedNameArgumentTest" in printed
    assert " passed" in printed


def test_an_unexpected_failure_and_an_unexpected_success_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = set(EXPECTED_FAILURES)
    monkeypatch.setattr(compliance, "run_suite", lambda _: (failed, ""))
    assert compliance.main([]) == 0
    failed.add("CTETest::test_new")
    assert compliance.main([]) == 1
    assert "unexpected failure: CTETest::test_new" in capsys.readouterr().out
    failed -= {"CTETest::test_new", "LastrowidTest::test_autoincrement_on_insert"}
    assert compliance.main(["-k", "CTETest"]) == 0
    assert compliance.main([]) == 1
    assert "expected to fail, but passed: LastrowidTest" in capsys.readouterr().out


def test_every_expected_failure_is_a_test_of_the_suite() -> None:
    classes: dict[str, ast.ClassDef] = {
        node.name: node
        for path in SUITE.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    tests = {
        f"{name}::{function.name}"
        for name, node in classes.items()
        for function in node.body
        if isinstance(function, ast.FunctionDef)
    }
    assert set(EXPECTED_FAILURES) <= tests
