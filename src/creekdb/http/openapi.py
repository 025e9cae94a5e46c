"""A description of all paths for programs, as OpenAPI 3.1 has it, from the operations there are."""

from http import HTTPStatus
from typing import Any, Final

from creekdb.http import responses
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.requests import CALL_NUMBER_HEADER, CLIENT_HEADER, HttpLimits
from creekdb.http.schema import Schema

_COMMON_PROBLEMS: Final = ("malformed", "origin", "busy")
_AUTHORIZED_PROBLEMS: Final = (*_COMMON_PROBLEMS, "token")
_JSON: Final = "application/json"
_KIND_SCHEMA: Final[Schema] = {"type": "string", "enum": ["tentative", "stable", "final"]}

API_DESCRIPTION: Final = """\
Each operation of the data type is a path. A *weak* call is answered at once from what this replica
knows, tentatively, and finally when its place among all others is certain. A *strong* call is
answered so, too, and stably when a majority has agreed.

Values are JSON; bytes are `{"$bytes": "…"}` in base64, and an object whose only key is `$bytes` or
`$dict` is wrapped as `{"$dict": {…}}`.

Every error is an `application/problem+json` (RFC 9457) that says in `certainly_not_done` whether
asking again can do harm."""


def openapi_document(
    operations: OperationCatalog, version: str, limits: HttpLimits
) -> dict[str, Any]:
    calling = _call_parameters(limits)
    paths: dict[str, Any] = {
        f"/operations/{name}": {"post": _operation_path(each, calling)}
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
    only_reads = ["Only reads: weakly, it has one answer, and no message is sent for it."]
    text = [operation.signature, operation.documentation, *(only_reads * operation.is_readonly)]
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
                "description": "The answer that was waited for; or all of them, as events.",
                "headers": _LOCATION_HEADER,
                "content": {
                    _JSON: {"schema": _call_response_schema(operation)},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            "202": {
                "description": "The answer has not come in time. The call is on disk: follow it.",
                "headers": _LOCATION_HEADER,
                "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}},
            },
            **_problem_responses(
                *_AUTHORIZED_PROBLEMS,
                *(
                    "unknown_operation",
                    "operation_raised",
                    "slow",
                    "too_large",
                    "media_type",
                    "bad_arguments",
                    "deadline",
                ),
                *("untold", "disk", "stopping", "no_majority", "not_ready"),
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
            "error": {"type": ["string", "null"], "description": "What the operation raised."},
            "changed": {
                "type": "boolean",
                "description": "Of a final answer: is it another one than was told before?",
            },
        },
        "required": ["kind", "value", "error", "changed"],
    }


def _call_response_schema(operation: OperationSpec) -> Schema:
    answer = _response_schema(_without_prefix_items(operation.response_schema))
    names = {"call": {"type": "string"}, "operation": {"const": operation.name}}
    required = ["call", "operation", *answer["required"]]
    return {**answer, "properties": {**names, **answer["properties"]}, "required": required}


def _without_prefix_items(schema: Schema) -> Schema:
    """Without `prefixItems`, which many who read answers do not know."""
    if "anyOf" in schema:
        return {"anyOf": [_without_prefix_items(each) for each in schema["anyOf"]]}
    if "prefixItems" in schema:
        parts = [_without_prefix_items(each) for each in schema["prefixItems"]]
        length = len(parts)
        items = {"anyOf": parts} if parts else {}
        return {"type": "array", "items": items, "minItems": length, "maxItems": length}
    inside = {key: _without_prefix_items(schema[key]) for key in ("items",) if key in schema}
    return {**schema, **inside}


_CALL_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "call": {"type": "string"},
        "operation": {"type": "string"},
        "consistency": {"type": "string", "enum": ["weak", "strong"]},
        "over": {"type": "boolean", "description": "Will there be no more answers?"},
        "answers": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}},
    },
    "required": ["call", "operation", "consistency", "over", "answers"],
}
_LOCATION_HEADER: Final = {
    "Location": {"description": "Where to ask for the call later.", "schema": {"type": "string"}}
}


def _parameter(place: str, name: str, schema: Schema, text: str) -> dict[str, Any]:
    return {"in": place, "name": name, "schema": schema, "description": text}


def _call_parameters(limits: HttpLimits) -> list[dict[str, Any]]:
    return [
        _parameter(
            "query",
            "consistency",
            {"type": "string", "enum": ["weak", "strong"], "default": "weak"},
            "Which guarantees the call has.",
        ),
        _parameter(
            "query",
            "wait",
            _KIND_SCHEMA,
            "Which answer to wait for: any (tentative), or the last, which is the stable one of a "
            "strong call and the final one of a weak call. Without it: the first answer of a weak "
            "call, the stable one of a strong call.",
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
            "Seconds to wait for it.",
        ),
        _parameter(
            "query",
            "after",
            {
                "type": "string",
                "pattern": r"^[0-9]{1,9}\.[1-9][0-9]{0,17}(,[0-9]{1,9}\.[1-9][0-9]{0,17}){0,63}$",
            },
            "Calls, made at other replicas, that this one must see: '0.17,2.4'.",
        ),
        _parameter(
            "header",
            CLIENT_HEADER,
            {"type": "string", "pattern": "^[!-~]{1,64}$"},
            "A name of your own. With it and a number, a call that is asked for again, here or at "
            "another replica, is not executed again.",
        ),
        _parameter(
            "header",
            CALL_NUMBER_HEADER,
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
            "The number of the call, each greater than the last.",
        ),
    ]


# --- errors -----------------------------------------------------------------------------------


_PROBLEM_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "enum": [f"urn:creek:problem:{name}" for name in responses.PROBLEM_KINDS],
        },
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "certainly_not_done": {
            "type": "boolean",
            "description": "Was the operation certainly not done, nor will be? Otherwise it may.",
        },
    },
    "required": ["type", "title", "status", "detail", "certainly_not_done"],
}


def _problem_responses(*names: str) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for name in names:
        by_status.setdefault(responses.PROBLEM_KINDS[name].status, []).append(name)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}. "
            + " ".join(f"`{name}`: {responses.PROBLEM_KINDS[name].title}." for name in same),
            "content": {
                responses.PROBLEM_CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
        for status, same in sorted(by_status.items())
    }


# --- looking ----------------------------------------------------------------------------------


def _read_paths(limits: HttpLimits) -> dict[str, Any]:
    id = {**_parameter("path", "id", {"type": "string"}, "Such as 0.17."), "required": True}
    call = {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}}
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "/calls/{id}": _get_path(
            "get_call", "A call and its answers so far.", call, "unknown_call", parameters=[id]
        ),
        "/calls/{id}/events": _get_path(
            "follow_call",
            "A call's answers as server-sent events: `issued`, `tentative`, `stable` or `final`; "
            "or `untold`, a problem, where what came of it is not known here.",
            events,
            "unknown_call",
            parameters=[id],
        ),
        "/state": _get_path(
            "get_state",
            "Committed registers, in the order of their keys.",
            {_JSON: {"schema": _STATE_SCHEMA}},
            *("state_to_come", "state_gone", "disk"),
            parameters=_state_parameters(limits),
        ),
        "/status": _get_path("get_status", "How this replica is.", _object_content()),
        "/health": _get_path("get_health", "Is it alive?", _object_content(), guarded=False),
        "/ready": _get_path(
            "get_ready", "Should it be asked?", _object_content(), "not_ready", guarded=False
        ),
        "/metrics": _get_path(
            "get_metrics", "For Prometheus.", {"text/plain": {"schema": {"type": "string"}}}
        ),
        "/openapi.json": _get_path("get_description", "This description.", _object_content()),
    }


def _get_path(
    id: str,
    summary: str,
    content: dict[str, Any],
    *names: str,
    parameters: list[dict[str, Any]] | None = None,
    guarded: bool = True,
) -> dict[str, Any]:
    fine = {"200": {"description": summary, "content": content}}
    known = _AUTHORIZED_PROBLEMS if guarded else _COMMON_PROBLEMS
    path = {
        "operationId": id,
        "summary": summary,
        "tags": ["looking"],
        "parameters": parameters or [],
        "responses": {**fine, **_problem_responses(*known, *names)},
    }
    return {"get": path if guarded else {**path, "security": []}}


def _object_content() -> dict[str, Any]:
    return {_JSON: {"schema": {"type": "object"}}}


_STATE_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "at": {"type": "integer", "description": "After how many requests of the order."},
        "oldest": {"type": "integer", "description": "From where on states can be read here."},
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
            "description": "What to ask for as `after`, if there is more.",
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
            'How keys begin: text for strings (`ap`), a JSON array for tuples (`["account"]`).',
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
            "How many at most.",
        ),
        _parameter(
            "query",
            "at",
            {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
            "After how many requests; without it, after the last that are certain.",
        ),
        _parameter(
            "query", "after", {"type": "string"}, "Go on behind this key: `next` of before."
        ),
    ]
