"""OpenAPI 3.1 description of all paths, generated from the operations of the data type."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from creekdb.http import sql
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.requests import (
    CHANGES_PARAMETERS,
    HttpLimits,
    RequestParameter,
    invoke_parameters,
    sql_parameters,
    state_parameters,
)
from creekdb.http.responses import EVENT_STREAM, PROBLEM_CONTENT_TYPE
from creekdb.http.schema import Schema
from creekdb.wire.reject_reason import RejectReason

_COMMON_PROBLEMS: Final = (
    RejectReason.MALFORMED,
    RejectReason.FOREIGN_ORIGIN,
    RejectReason.HEADER_TOO_LARGE,
    RejectReason.BUSY,
)
_AUTHORIZED_PROBLEMS: Final = (*_COMMON_PROBLEMS, RejectReason.TOKEN)
_CALL_PROBLEMS: Final = (
    RejectReason.UNKNOWN_OPERATION,
    RejectReason.OPERATION_RAISED,
    RejectReason.BODY_TIMEOUT,
    RejectReason.TOO_LARGE,
    RejectReason.MEDIA_TYPE,
    RejectReason.BAD_ARGUMENTS,
    RejectReason.DEADLINE,
    RejectReason.UNKNOWN_OUTCOME,
    RejectReason.DISK,
    RejectReason.STOPPING,
    RejectReason.NO_MAJORITY,
    RejectReason.DIFFERENT_CODE,
    RejectReason.NOT_READY,
)
_JSON: Final = "application/json"
_PROBLEM_TYPES: Final = [
    f"urn:creek:problem:{reason}" for reason in RejectReason if reason.rule.http_status is not None
]
_TEXT: Final[Schema] = {"type": "string"}
_LOCATION_HEADER: Final = {"Location": {"description": "Path of the call.", "schema": _TEXT}}

API_DESCRIPTION: Final = """\
Each operation of the data type is a path. A *weak* call returns a tentative response at once,
computed from the local state of this replica. Its final response follows when its position in the
order of all requests is fixed. A *strong* call returns a tentative response too, and its stable
response when a majority has agreed on its position.

Values are JSON; bytes are `{"$bytes": "…"}` in base64, and an object whose only key is `$bytes` or
`$dict` is wrapped as `{"$dict": {…}}`.

Every error is an `application/problem+json` document (RFC 9457). If its `certainly_not_done` is
true, a retry is safe."""


# --- bodies of responses ----------------------------------------------------------------------


class Problem(msgspec.Struct):
    type: Annotated[str, Meta(extra_json_schema={"enum": _PROBLEM_TYPES})]
    title: str
    status: int
    detail: str
    certainly_not_done: Annotated[
        bool, Meta(description="True if the operation was not and will not be executed.")
    ]
    error: Annotated[
        str, Meta(description="Type of the exception, if the operation raised one.")
    ] = ""
    message: Annotated[
        str, Meta(description="Text of the exception, if the operation raised one.")
    ] = ""


class CallResponse(msgspec.Struct):
    kind: Literal["tentative", "stable", "final"]
    value: Any
    error: Annotated[str | None, Meta(description="Error raised by the operation.")]
    changed: Annotated[
        bool, Meta(description="True if a final response differs from the tentative one.")
    ]


class Call(msgspec.Struct):
    call: str
    operation: str
    consistency: Literal["weak", "strong"]
    over: Annotated[bool, Meta(description="True if no further response will arrive.")]
    responses: list[CallResponse]


class Event(msgspec.Struct):
    """Server-sent event of a call."""

    event: Annotated[
        str, Meta(description="`issued`, the kind of a response, or the name of a problem.")
    ]
    data: Annotated[str, Meta(description="The call, a response or a problem, as JSON.")]


class ChangeEvent(msgspec.Struct):
    """Server-sent event of the change feed."""

    event: Annotated[
        str, Meta(description="`change`, or the name of a problem, after which the stream ends.")
    ]
    id: Annotated[str, Meta(description="Identity of the cluster, a colon and the commit index.")]
    data: Annotated[
        str,
        Meta(
            description="The change as JSON: index, call, timestamp, operation, arguments, strong, "
            "changed, value, error, writes, deleted, before, client, number and "
            "commit_timestamp; with `table` also table and rows."
        ),
    ]


class Register(msgspec.Struct):
    key: Any
    value: Any


class State(msgspec.Struct):
    at: Annotated[int, Meta(description="Number of requests that the state includes.")]
    oldest: Annotated[int, Meta(description="Smallest readable value of `at`.")]
    newest: int
    items: list[Register]
    next: Annotated[
        str | None, Meta(description="Value of `after` for the next page; null on the last page.")
    ]


_, _SCHEMAS = msgspec.json.schema_components(
    (Problem, Call, Event, ChangeEvent, State), ref_template="#/components/schemas/{name}"
)


def _content(schema: Schema | type[msgspec.Struct], media_type: str = _JSON) -> dict[str, Any]:
    if isinstance(schema, type):
        schema = {"$ref": f"#/components/schemas/{schema.__name__}"}
    return {media_type: {"schema": schema}}


# --- document ---------------------------------------------------------------------------------


def openapi_document(
    operations: OperationCatalog, version: str, limits: HttpLimits
) -> dict[str, Any]:
    call_parameters = _parameters(invoke_parameters(limits))
    paths: dict[str, Any] = {
        f"/operations/{name}": {"post": _operation_path(each, call_parameters)}
        for name, each in operations.by_name.items()
    }
    if sql.is_supported(operations):
        parameters = _parameters(sql_parameters(limits))
        operation = _operation_path(operations.by_name[sql.CHANGING_OPERATION], parameters)
        paths[sql.PATH] = {"post": {**operation, **sql.path_description(_content)}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{operations.datatype.name}, replicated by Creek",
            "version": version,
            "description": API_DESCRIPTION,
        },
        "security": [{"token": []}, {}],
        "paths": {**paths, **_read_paths(limits)},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _parameters(parameters: Sequence[RequestParameter]) -> list[dict[str, Any]]:
    return [
        {"in": location, "name": name, "schema": schema, "description": description}
        for name, schema, description, location, _ in parameters
    ]


# --- operations -------------------------------------------------------------------------------


def _operation_path(operation: OperationSpec, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    readonly_note = ["Read-only: a weak call has one response and sends no message."]
    text = [operation.signature, operation.documentation, *(readonly_note * operation.is_readonly)]
    return {
        "operationId": f"call_{operation.name}",
        "summary": operation.signature,
        "description": "\n\n".join(filter(None, text)),
        "tags": ["reads" if operation.is_readonly else "writes"],
        "x-creek-readonly": operation.is_readonly,
        "parameters": parameters,
        "requestBody": {
            "required": any(each.is_required for each in operation.parameters),
            "content": _content(_arguments_schema(operation)),
        },
        "responses": {
            "200": {
                "description": "The awaited response, or all responses as server-sent events.",
                "headers": _LOCATION_HEADER,
                "content": {
                    **_content(_call_response_schema(operation)),
                    **_content(Event, EVENT_STREAM),
                },
            },
            "202": {
                "description": "The response is pending. The call is on disk; poll or follow it.",
                "headers": _LOCATION_HEADER,
                "content": _content(Call),
            },
            **_problem_responses(*_AUTHORIZED_PROBLEMS, *_CALL_PROBLEMS),
        },
    }


def _arguments_schema(operation: OperationSpec) -> Schema:
    properties = {}
    for each in operation.parameters:
        schema = dict(each.schema)
        is_optional = not each.is_required and not each.is_variadic
        if is_optional and type(each.default) in (bool, int, float, str, type(None)):
            schema["default"] = each.default
        properties[each.name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in operation.parameters if each.is_required],
        "additionalProperties": False,
    }


def _call_response_schema(operation: OperationSpec) -> Schema:
    """Return the schema of a response, with the names of the call and the type of its value."""
    response = _SCHEMAS["CallResponse"]
    return {
        "type": "object",
        "properties": {
            "call": _TEXT,
            "operation": {"const": operation.name},
            **response["properties"],
            "value": _without_prefix_items(operation.response_schema),
        },
        "required": ["call", "operation", *response["required"]],
    }


def _without_prefix_items(schema: Schema) -> Schema:
    """Return the schema without `prefixItems`, which many OpenAPI readers do not support."""
    if "anyOf" in schema:
        return {"anyOf": [_without_prefix_items(each) for each in schema["anyOf"]]}
    if "prefixItems" in schema:
        parts = [_without_prefix_items(each) for each in schema["prefixItems"]]
        length = len(parts)
        items = {"anyOf": parts} if parts else {}
        return {"type": "array", "items": items, "minItems": length, "maxItems": length}
    nested = {key: _without_prefix_items(schema[key]) for key in ("items",) if key in schema}
    return {**schema, **nested}


def _problem_responses(*reasons: RejectReason) -> dict[str, Any]:
    by_status: dict[int, list[RejectReason]] = {}
    for reason in reasons:
        by_status.setdefault(reason.rule.http_status or 0, []).append(reason)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}. "
            + " ".join(f"`{reason}`: {reason.rule.text}." for reason in reasons_of_status),
            "content": _content(Problem, PROBLEM_CONTENT_TYPE),
        }
        for status, reasons_of_status in sorted(by_status.items())
    }


# --- reading ----------------------------------------------------------------------------------


def _read_paths(limits: HttpLimits) -> dict[str, Any]:
    id = RequestParameter("id", _TEXT, "Call identifier, such as 0.17.", "path")
    call_id = [{**each, "required": True} for each in _parameters([id])]
    any_object = _content({"type": "object"})
    return {
        "/calls/{id}": _get_path(
            "get_call",
            "A call and its responses so far.",
            _content(Call),
            RejectReason.UNKNOWN_CALL,
            parameters=call_id,
        ),
        "/calls/{id}/events": _get_path(
            "follow_call",
            "The responses of a call as server-sent events: `issued`, `tentative`, `stable` or "
            "`final`. The event `response_unavailable` is a problem: the replica no longer has "
            "the response.",
            _content(Event, EVENT_STREAM),
            RejectReason.UNKNOWN_CALL,
            parameters=call_id,
        ),
        "/changes": _get_path(
            "follow_changes",
            "Committed requests and the registers that they wrote, in commit order, as server-sent "
            "events. A client that accepts `text/event-stream` receives a problem that may pass, "
            "such as `not_ready`, as the only event of a stream, since browsers reconnect after "
            "status 200 only.",
            _content(ChangeEvent, EVENT_STREAM),
            *(RejectReason.CHANGES_EXPIRED, RejectReason.POSITION_IN_FUTURE),
            *(RejectReason.FOREIGN_POSITION, RejectReason.CHANGES_OFF, RejectReason.UNKNOWN_TABLE),
            RejectReason.NOT_READY,
            parameters=_parameters(CHANGES_PARAMETERS),
        ),
        "/state": _get_path(
            "get_state",
            "Committed registers, in the order of their keys.",
            _content(State),
            *(RejectReason.STATE_NOT_COMMITTED, RejectReason.STATE_EXPIRED, RejectReason.DISK),
            parameters=_parameters(state_parameters(limits)),
        ),
        "/status": _get_path("get_status", "Status of this replica.", any_object),
        "/health": _get_path(
            "get_health", "Liveness of the process.", any_object, is_authorized=False
        ),
        "/ready": _get_path(
            "get_ready",
            "Readiness for calls.",
            any_object,
            RejectReason.NOT_READY,
            is_authorized=False,
        ),
        "/metrics": _get_path(
            "get_metrics", "Metrics for Prometheus.", _content(_TEXT, "text/plain")
        ),
        "/openapi.json": _get_path("get_description", "This OpenAPI description.", any_object),
    }


def _get_path(
    id: str,
    summary: str,
    content: dict[str, Any],
    *reasons: RejectReason,
    parameters: list[dict[str, Any]] | None = None,
    is_authorized: bool = True,
) -> dict[str, Any]:
    success = {"200": {"description": summary, "content": content}}
    common_problems = _AUTHORIZED_PROBLEMS if is_authorized else _COMMON_PROBLEMS
    path = {
        "operationId": id,
        "summary": summary,
        "tags": ["reading"],
        "parameters": parameters or [],
        "responses": {**success, **_problem_responses(*common_problems, *reasons)},
    }
    return {"get": path if is_authorized else {**path, "security": []}}
