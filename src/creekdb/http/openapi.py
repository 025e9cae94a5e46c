"""A description of all paths for programs, as OpenAPI 3.1 has it, from the operations there are."""

from http import HTTPStatus
from typing import Any, Final

from creekdb.http import responses
from creekdb.http.operations import Described, Operations
from creekdb.http.requests import CLIENT, NUMBER, Limits
from creekdb.http.schema import Schema

_EVERYWHERE: Final = ("malformed", "origin", "busy")
_GUARDED: Final = (*_EVERYWHERE, "token")
_JSON: Final = "application/json"
_KIND: Final[Schema] = {"type": "string", "enum": ["tentative", "stable", "final"]}

ABOUT: Final = """\
Each operation of the data type is a path. A *weak* call is answered at once from what this replica
knows, tentatively, and finally when its place among all others is certain. A *strong* call is
answered so, too, and stably when a majority has agreed.

Values are JSON; bytes are `{"$bytes": "…"}` in base64, and an object whose only key is `$bytes` or
`$dict` is wrapped as `{"$dict": {…}}`.

Every error is an `application/problem+json` (RFC 9457) that says in `certainly_not_done` whether
asking again can do harm."""


def description(operations: Operations, version: str, limits: Limits) -> dict[str, Any]:
    calling = _calling(limits)
    paths: dict[str, Any] = {
        f"/operations/{name}": {"post": _operation(each, calling)}
        for name, each in operations.all.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{operations.datatype.name}, replicated by Creek",
            "version": version,
            "description": ABOUT,
        },
        "security": [{"token": []}, {}],
        "paths": {**paths, **_looking(limits)},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM, "Call": _CALL, "Answer": _answer({})},
        },
    }


# --- operations -------------------------------------------------------------------------------


def _operation(operation: Described, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    only_reads = ["Only reads: weakly, it has one answer, and no message is sent for it."]
    text = [operation.signature, operation.documentation, *(only_reads * operation.readonly)]
    return {
        "operationId": f"call_{operation.name}",
        "summary": operation.signature,
        "description": "\n\n".join(filter(None, text)),
        "tags": ["reads" if operation.readonly else "writes"],
        "x-creek-readonly": operation.readonly,
        "parameters": parameters,
        "requestBody": {
            "required": any(each.required for each in operation.parameters),
            "content": {_JSON: {"schema": _arguments(operation)}},
        },
        "responses": {
            "200": {
                "description": "The answer that was waited for; or all of them, as events.",
                "headers": _LOCATION,
                "content": {
                    _JSON: {"schema": _called(operation)},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            "202": {
                "description": "The answer has not come in time. The call is on disk: follow it.",
                "headers": _LOCATION,
                "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}},
            },
            **_problems(
                *_GUARDED,
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


def _arguments(operation: Described) -> Schema:
    properties = {}
    for each in operation.parameters:
        schema = dict(each.schema)
        if not each.required and not each.is_rest and _is_plain(each.default):
            schema["default"] = each.default
        properties[each.name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in operation.parameters if each.required],
        "additionalProperties": False,
    }


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str)


def _answer(value: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "kind": _KIND,
            "value": value,
            "error": {"type": ["string", "null"], "description": "What the operation raised."},
            "changed": {
                "type": "boolean",
                "description": "Of a final answer: is it another one than was told before?",
            },
        },
        "required": ["kind", "value", "error", "changed"],
    }


def _called(operation: Described) -> Schema:
    answer = _answer(_loose(operation.answer))
    names = {"call": {"type": "string"}, "operation": {"const": operation.name}}
    required = ["call", "operation", *answer["required"]]
    return {**answer, "properties": {**names, **answer["properties"]}, "required": required}


def _loose(schema: Schema) -> Schema:
    """Without `prefixItems`, which many who read answers do not know."""
    if "anyOf" in schema:
        return {"anyOf": [_loose(each) for each in schema["anyOf"]]}
    if "prefixItems" in schema:
        parts = [_loose(each) for each in schema["prefixItems"]]
        length = len(parts)
        items = {"anyOf": parts} if parts else {}
        return {"type": "array", "items": items, "minItems": length, "maxItems": length}
    inside = {key: _loose(schema[key]) for key in ("items",) if key in schema}
    return {**schema, **inside}


_CALL: Final[Schema] = {
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
_LOCATION: Final = {
    "Location": {"description": "Where to ask for the call later.", "schema": {"type": "string"}}
}


def _parameter(place: str, name: str, schema: Schema, text: str) -> dict[str, Any]:
    return {"in": place, "name": name, "schema": schema, "description": text}


def _calling(limits: Limits) -> list[dict[str, Any]]:
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
            _KIND,
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
                "default": limits.timeout_s,
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
            CLIENT,
            {"type": "string", "pattern": "^[!-~]{1,64}$"},
            "A name of your own. With it and a number, a call that is asked for again, here or at "
            "another replica, is not executed again.",
        ),
        _parameter(
            "header",
            NUMBER,
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
            "The number of the call, each greater than the last.",
        ),
    ]


# --- errors -----------------------------------------------------------------------------------


_PROBLEM: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "enum": [f"urn:creek:problem:{name}" for name in responses.KINDS],
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


def _problems(*names: str) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for name in names:
        by_status.setdefault(responses.KINDS[name].status, []).append(name)
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}. "
            + " ".join(f"`{name}`: {responses.KINDS[name].title}." for name in same),
            "content": {
                responses.CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
        for status, same in sorted(by_status.items())
    }


# --- looking ----------------------------------------------------------------------------------


def _looking(limits: Limits) -> dict[str, Any]:
    id = {**_parameter("path", "id", {"type": "string"}, "Such as 0.17."), "required": True}
    call = {_JSON: {"schema": {"$ref": "#/components/schemas/Call"}}}
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "/calls/{id}": _get(
            "get_call", "A call and its answers so far.", call, "unknown_call", parameters=[id]
        ),
        "/calls/{id}/events": _get(
            "follow_call",
            "A call's answers as server-sent events: `issued`, `tentative`, `stable` or `final`; "
            "or `untold`, a problem, where what came of it is not known here.",
            events,
            "unknown_call",
            parameters=[id],
        ),
        "/state": _get(
            "get_state",
            "Committed registers, in the order of their keys.",
            {_JSON: {"schema": _STATE}},
            *("state_to_come", "state_gone", "disk"),
            parameters=_reading(limits),
        ),
        "/status": _get("get_status", "How this replica is.", _object()),
        "/health": _get("get_health", "Is it alive?", _object(), guarded=False),
        "/ready": _get("get_ready", "Should it be asked?", _object(), "not_ready", guarded=False),
        "/metrics": _get(
            "get_metrics", "For Prometheus.", {"text/plain": {"schema": {"type": "string"}}}
        ),
        "/openapi.json": _get("get_description", "This description.", _object()),
    }


def _get(
    id: str,
    summary: str,
    content: dict[str, Any],
    *names: str,
    parameters: list[dict[str, Any]] | None = None,
    guarded: bool = True,
) -> dict[str, Any]:
    fine = {"200": {"description": summary, "content": content}}
    known = _GUARDED if guarded else _EVERYWHERE
    path = {
        "operationId": id,
        "summary": summary,
        "tags": ["looking"],
        "parameters": parameters or [],
        "responses": {**fine, **_problems(*known, *names)},
    }
    return {"get": path if guarded else {**path, "security": []}}


def _object() -> dict[str, Any]:
    return {_JSON: {"schema": {"type": "object"}}}


_STATE: Final[Schema] = {
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


def _reading(limits: Limits) -> list[dict[str, Any]]:
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
            {"type": "integer", "minimum": 1, "maximum": limits.items_max, "default": limits.items},
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
