"""OpenAPI 3.1 description of all paths, generated from the operations of the data type."""

from http import HTTPStatus
from typing import Any, Final

from creekdb.http import responses
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.requests import CALL_NUMBER_HEADER, CLIENT_HEADER, HttpLimits
from creekdb.http.schema import Schema
from creekdb.wire.reject_reason import REJECT_RULES, RejectReason

_COMMON_PROBLEMS: Final = (RejectReason.MALFORMED, RejectReason.FOREIGN_ORIGIN, RejectReason.BUSY)
_AUTHORIZED_PROBLEMS: Final = (*_COMMON_PROBLEMS, RejectReason.TOKEN)
_JSON: Final = "application/json"
_KIND_SCHEMA: Final[Schema] = {"type": "string", "enum": ["tentative", "stable", "final"]}

API_DESCRIPTION: Final = """\
Each operation of the data type is a path. A *weak* call returns a tentative response at once,
computed from the local state of this replica. Its final response follows when its position in the
order of all requests is fixed. A *strong* call returns a tentative response too, and its stable
response when a majority has agreed on its position.

Values are JSON; bytes are `{"$bytes": "…"}` in base64, and an object whose only key is `$bytes` or
`$dict` is wrapped as `{"$dict": {…}}`.

Every error is an `application/problem+json` document (RFC 9457). If its `certainly_not_done` is
true, a retry is safe."""


def openapi_document(
    operations: OperationCatalog, version: str, limits: HttpLimits
) -> dict[str, Any]:
    call_parameters = _call_parameters(limits)
    paths: dict[str, Any] = {
        f"/operations/{name}": {"post": _operation_path(each, call_parameters)}
        for name, each in operations.by_name.items()
    }
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
            "schemas": {
                "Problem": _PROBLEM_SCHEMA,
                "Call": _CALL_SCHEMA,
                "Answer": _response_schema({}),
            },
        },
    }


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
            "content": {_JSON: {"schema": _arguments_schema(operation)}},
        },
        "responses": {
            "200": {
                "description": "The awaited response, or all responses as server-sent events.",
                "headers": _LOCATION_HEADER,
                "content": {
                    _JSON: {"schema": _call_response_schema(operation)},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            "202": {
                "description": "The response is pending. The call is on disk; poll or follow it.",
                "headers": _LOCATION_HEADER,
                "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}},
            },
            **_problem_responses(
                *_AUTHORIZED_PROBLEMS,
                *(
                    RejectReason.UNKNOWN_OPERATION,
                    RejectReason.OPERATION_RAISED,
                    RejectReason.BODY_TIMEOUT,
                    RejectReason.TOO_LARGE,
                    RejectReason.MEDIA_TYPE,
                    RejectReason.BAD_ARGUMENTS,
                    RejectReason.DEADLINE,
                ),
                *(
                    RejectReason.UNKNOWN_OUTCOME,
                    RejectReason.DISK,
                    RejectReason.STOPPING,
                    RejectReason.NO_MAJORITY,
                    RejectReason.NOT_READY,
                ),
            ),
        },
    }


def _arguments_schema(operation: OperationSpec) -> Schema:
    properties = {}
    for each in operation.parameters:
        schema = dict(each.schema)
        if not each.is_required and not each.is_variadic and _is_scalar(each.default):
            schema["default"] = each.default
        properties[each.name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in operation.parameters if each.is_required],
        "additionalProperties": False,
    }


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _response_schema(value: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "kind": _KIND_SCHEMA,
            "value": value,
            "error": {"type": ["string", "null"], "description": "Error raised by the operation."},
            "changed": {
                "type": "boolean",
                "description": "True if a final response differs from the tentative one.",
            },
        },
        "required": ["kind", "value", "error", "changed"],
    }


def _call_response_schema(operation: OperationSpec) -> Schema:
    response_schema = _response_schema(_without_prefix_items(operation.response_schema))
    names = {"call": {"type": "string"}, "operation": {"const": operation.name}}
    required = ["call", "operation", *response_schema["required"]]
    return {
        **response_schema,
        "properties": {**names, **response_schema["properties"]},
        "required": required,
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


_CALL_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "call": {"type": "string"},
        "operation": {"type": "string"},
        "consistency": {"type": "string", "enum": ["weak", "strong"]},
        "over": {"type": "boolean", "description": "True if no further response will arrive."},
        "answers": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}},
    },
    "required": ["call", "operation", "consistency", "over", "answers"],
}
_LOCATION_HEADER: Final = {
    "Location": {"description": "Path of the call.", "schema": {"type": "string"}}
}


def _parameter(location: str, name: str, schema: Schema, text: str) -> dict[str, Any]:
    return {"in": location, "name": name, "schema": schema, "description": text}


def _call_parameters(limits: HttpLimits) -> list[dict[str, Any]]:
    return [
        _parameter(
            "query",
            "consistency",
            {"type": "string", "enum": ["weak", "strong"], "default": "weak"},
            "Consistency of the call.",
        ),
        _parameter(
            "query",
            "wait",
            _KIND_SCHEMA,
            "Response to wait for: `tentative` is any response; `stable` and `final` are the last "
            "response of a strong and of a weak call. Default: the first response of a weak call, "
            "the stable response of a strong call.",
        ),
        _parameter(
            "query",
            "timeout",
            {
                "type": "number",
                "minimum": 0,
                "maximum": limits.timeout_s_max,
                "default": limits.timeout_s_default,
            },
            "Upper bound for the wait for the response, in seconds.",
        ),
        _parameter(
            "query",
            "after",
            {
                "type": "string",
                "pattern": r"^[0-9]{1,9}\.[1-9][0-9]{0,17}(,[0-9]{1,9}\.[1-9][0-9]{0,17}){0,63}$",
            },
            "Calls of other replicas that must be executed before this one: '0.17,2.4'.",
        ),
        _parameter(
            "header",
            CLIENT_HEADER,
            {"type": "string", "pattern": "^[!-~]{1,64}$"},
            "Client name, chosen by the client. A retry with the same name and number, at this or "
            "another replica, is not executed again.",
        ),
        _parameter(
            "header",
            CALL_NUMBER_HEADER,
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
            "Number of the call; must increase with every call of the client.",
        ),
    ]


# --- errors -----------------------------------------------------------------------------------


_PROBLEM_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "enum": [
                f"urn:creek:problem:{reason}"
                for reason in RejectReason
                if REJECT_RULES[reason].http_status is not None
            ],
        },
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "certainly_not_done": {
            "type": "boolean",
            "description": "True if the operation was not and will not be executed.",
        },
    },
    "required": ["type", "title", "status", "detail", "certainly_not_done"],
}


def _problem_responses(*reasons: RejectReason) -> dict[str, Any]:
    by_status: dict[int, list[RejectReason]] = {}
    for reason in reasons:
        by_status.setdefault(REJECT_RULES[reason].http_status or 0, []).append(reason)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}. "
            + " ".join(f"`{reason}`: {REJECT_RULES[reason].text}." for reason in reasons_of_status),
            "content": {
                responses.PROBLEM_CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
        for status, reasons_of_status in sorted(by_status.items())
    }


# --- reading ----------------------------------------------------------------------------------


def _read_paths(limits: HttpLimits) -> dict[str, Any]:
    id = {
        **_parameter("path", "id", {"type": "string"}, "Call identifier, such as 0.17."),
        "required": True,
    }
    call = {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}}
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "/calls/{id}": _get_path(
            "get_call",
            "A call and its responses so far.",
            call,
            RejectReason.UNKNOWN_CALL,
            parameters=[id],
        ),
        "/calls/{id}/events": _get_path(
            "follow_call",
            "The responses of a call as server-sent events: `issued`, `tentative`, `stable` or "
            "`final`. The event `untold` is a problem: this replica no longer has the response.",
            events,
            RejectReason.UNKNOWN_CALL,
            parameters=[id],
        ),
        "/state": _get_path(
            "get_state",
            "Committed registers, in the order of their keys.",
            {_JSON: {"schema": _STATE_SCHEMA}},
            *(RejectReason.STATE_NOT_COMMITTED, RejectReason.STATE_EXPIRED, RejectReason.DISK),
            parameters=_state_parameters(limits),
        ),
        "/status": _get_path("get_status", "Status of this replica.", _object_content()),
        "/health": _get_path(
            "get_health", "Liveness of the process.", _object_content(), is_authorized=False
        ),
        "/ready": _get_path(
            "get_ready",
            "Readiness for calls.",
            _object_content(),
            RejectReason.NOT_READY,
            is_authorized=False,
        ),
        "/metrics": _get_path(
            "get_metrics", "Metrics for Prometheus.", {"text/plain": {"schema": {"type": "string"}}}
        ),
        "/openapi.json": _get_path(
            "get_description", "This OpenAPI description.", _object_content()
        ),
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


def _object_content() -> dict[str, Any]:
    return {_JSON: {"schema": {"type": "object"}}}


_STATE_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "at": {"type": "integer", "description": "Number of requests that the state includes."},
        "oldest": {"type": "integer", "description": "Smallest readable value of `at`."},
        "newest": {"type": "integer"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"key": {}, "value": {}},
                "required": ["key", "value"],
            },
        },
        "next": {
            "type": ["string", "null"],
            "description": "Value of `after` for the next page; null on the last page.",
        },
    },
    "required": ["at", "oldest", "newest", "items", "next"],
}


def _state_parameters(limits: HttpLimits) -> list[dict[str, Any]]:
    return [
        _parameter(
            "query",
            "prefix",
            {"type": "string"},
            'Key prefix: text for string keys (`ap`), a JSON array for tuple keys (`["account"]`).',
        ),
        _parameter(
            "query",
            "limit",
            {
                "type": "integer",
                "minimum": 1,
                "maximum": limits.items_max,
                "default": limits.items_default,
            },
            "Upper bound for the number of registers.",
        ),
        _parameter(
            "query",
            "at",
            {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
            "Number of requests that the state includes. Default: all stable requests.",
        ),
        _parameter(
            "query",
            "after",
            {"type": "string"},
            "Key after which to continue: `next` of the last page.",
        ),
    ]
