"""Failures of a streaming query as errors of one line."""

from creekdb.errors import UsageError
from creekdb.pipeline.watch.following import creek_error_of, ended_query_error


def test_the_error_of_a_task_is_found_in_the_report_of_spark() -> None:
    report = "[STREAM_FAILED] x\ncreekdb.errors.UsageError: servers a and b are replica 0\n  at y"

    error = creek_error_of(report)

    assert isinstance(error, UsageError)
    assert str(error) == "servers a and b are replica 0"
    assert creek_error_of("[STREAM_FAILED] x") is None


def test_an_unknown_failure_names_its_cause_and_the_remedy() -> None:
    error = ended_query_error(RuntimeError("[STREAM_FAILED] no worker\n=== Query ==="))

    assert str(error) == (
        "Spark ended the query: [STREAM_FAILED] no worker; run the same command again to continue"
    )
