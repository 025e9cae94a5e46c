"""Checks of schemathesis that only this API needs. Schemathesis imports this module by name."""

from typing import Any

import schemathesis


@schemathesis.check
def errors_are_problems(
    context: schemathesis.CheckContext,
    response: schemathesis.Response,
    case: schemathesis.Case[Any],
) -> None:
    """Every error is a problem document that repeats the status, also of an undescribed method."""
    if response.status_code < 400:
        return
    media_types = response.headers.get("content-type", [])
    assert media_types == ["application/problem+json"], f"an error is {media_types}"
    if case.method != "HEAD":
        problem = response.json()
        assert problem["status"] == response.status_code
        assert problem["type"].startswith("urn:creek:problem:")
