"""Rejection reasons: encoded values, the table of their properties, and its use everywhere."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from creekdb.protocol.validation import MessageRejection
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import REJECT_RULES, RejectReason, reject_rule

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "creekdb"
ENCODED_VALUES = (
    *(
        "malformed",
        "token",
        "foreign_origin",
        "not_found",
        "unknown_operation",
        "unknown_table",
        "unknown_call",
    ),
    *(
        "state_not_committed",
        "unsupported_method",
        "body_timeout",
        "operation_raised",
        "response_unavailable",
        "state_expired",
    ),
    *("changes_expired", "position_in_future", "foreign_position", "changes_off", "too_large"),
    *(
        "media_type",
        "bad_arguments",
        "deadline",
        "header_too_large",
        "internal_error",
        "busy",
        "disk",
    ),
    *(
        "stopping",
        "no_majority",
        "not_ready",
        "different_code",
        "version",
        "datatype",
        "unexpected_tls",
        "unexpected_http",
    ),
    *("unreachable", "closed"),
)
WORDS_WITH_OTHER_MEANINGS = {
    *("closed", "datatype", "deadline", "disk", "malformed"),
    *("stopping", "token", "unreachable", "version"),
}
"""Values that are also names of columns, options, attributes or states."""
REJECTING_CALLS = {
    *("ConnectionRejected", "HttpProblem", "NotDone", "PeerRejection", "Rejected"),
    *("_reject_connection", "count", "count_rejection", "fail_all", "record_failure", "reject"),
}


def test_encoded_values_never_change() -> None:
    assert tuple(RejectReason) == ENCODED_VALUES


def test_every_reason_has_a_rule() -> None:
    assert list(REJECT_RULES) == list(RejectReason)
    assert reject_rule("reason_of_a_newer_replica") not in REJECT_RULES.values()


def test_only_certain_rejections_are_retried_elsewhere() -> None:
    retried = {reason for reason in RejectReason if REJECT_RULES[reason].retry_elsewhere}
    assert retried == {RejectReason.DISK, RejectReason.STOPPING, RejectReason.NO_MAJORITY}
    assert all(REJECT_RULES[reason].is_certain for reason in retried)
    assert all(REJECT_RULES[reason].is_temporary for reason in retried)


def test_the_same_replica_may_accept_a_call_after_these_reasons() -> None:
    temporary = {reason for reason in RejectReason if reason.rule.is_temporary}

    assert temporary == {
        RejectReason.BUSY,
        RejectReason.DISK,
        RejectReason.STOPPING,
        RejectReason.NO_MAJORITY,
        RejectReason.NOT_READY,
        RejectReason.DIFFERENT_CODE,
    }


def test_a_reason_of_a_newer_replica_is_not_retried() -> None:
    rule = reject_rule("reason_of_a_newer_replica")
    assert not rule.retry_elsewhere
    assert not rule.is_temporary


def test_no_value_is_declared_twice() -> None:
    values = [*RejectReason, *ServerCounter, *MessageRejection]
    assert len(values) == len(set(values))


def test_sources_use_the_enum_instead_of_literals() -> None:
    found = [
        (str(path.relative_to(SOURCES)), *literal)
        for path in SOURCES.rglob("*.py")
        if path != SOURCES / "wire" / "reject_reason.py"
        for literal in bare_reasons(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def bare_reasons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines and values of string literals that stand for a reason."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Call) and called_name(node) in REJECTING_CALLS:
            operands = node.args
        elif isinstance(node, ast.Compare) and "reason" in ast.unparse(node):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            operands = node.value.elts
        elif isinstance(node, ast.Constant) and node.value not in WORDS_WITH_OTHER_MEANINGS:
            operands = [node]
        for operand in operands:
            if isinstance(operand, ast.Constant) and operand.value in ENCODED_VALUES:
                yield operand.lineno, operand.value


def called_name(call: ast.Call) -> str:
    """Return the last part of the called name."""
    return ast.unparse(call.func).rpartition(".")[2]


def test_documents_list_every_reason() -> None:
    documents = ROOT / "docs"
    problems = (documents / "http.md").read_text(encoding="utf-8")
    reasons = (documents / "live-cluster.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (.*) \|$", reasons, re.MULTILINE)
    for reason, retried, meaning in rows:
        rule = REJECT_RULES[reason]
        assert (retried == "yes") == rule.retry_elsewhere, reason
        assert meaning.startswith(rule.text), reason
    http_reasons = re.findall(r"^\| \d{3} \| `(\w+)` \|", problems, re.MULTILINE)
    assert {*http_reasons} | {reason for reason, _, _ in rows} == {*RejectReason}
