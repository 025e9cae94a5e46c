"""Generated pages of the documentation and their contents."""

import inspect
from collections.abc import Callable
from typing import Any

import creekdb
from creekdb import client, datatypes, errors
from creekdb.client import blocking, proxies
from creekdb.client import errors as call_errors
from creekdb.execution.random import RequestRandom
from creekdb.pipeline import schemas
from creekdb.pipeline import tables as reading
from creekdb.protocol.request import NOOP
from creekdb.server.runtime import config
from creekdb.wire.messages import CallResponse
from tools.site.commands import commands
from tools.site.docstrings import as_markdown, docstring_of
from tools.site.names import Shown, section
from tools.site.settings import table
from tools.site.tables import tables

_FOOTER = "This page is generated from the code."

CLIENT = (
    Shown(creekdb.connect, "creekdb.connect"),
    Shown(
        client.Database,
        "Database",
        frozenset({"call", "discovery", "new_session", "operations", "welcome"}),
    ),
    Shown(proxies.CallProxy, "CallProxy"),
    Shown(
        client.Call,
        "Call",
        frozenset(
            {
                "message",
                "timeout_s",
                "deadline",
                "attempts",
                "rejected_by",
                "rejection",
                "query_outcome",
                "add_response",
                "fail",
            }
        ),
    ),
    Shown(client.FinalOutcome, "FinalOutcome"),
    Shown(CallResponse, "CallResponse"),
    Shown(proxies.Session, "Session"),
    Shown(
        client.BlockingDatabase,
        "BlockingDatabase",
        frozenset({"open", "call", "begin", "operations", "run_coroutine"}),
    ),
    Shown(blocking.BlockingCallProxy, "BlockingCallProxy", frozenset({"after", "within"})),
    Shown(client.BlockingCall, "BlockingCall"),
)

DATATYPES = (
    Shown(
        creekdb.DataType,
        "creekdb.DataType",
        frozenset({"run", "name", "base", "steps", "count_lines", "error_observer"}),
        constructed=True,
    ),
    Shown(
        creekdb.Sequential,
        "creekdb.Sequential",
        frozenset({"datatype", "read", "pick", "keys", "is_addable"}),
    ),
    Shown(creekdb.Operation, "creekdb.Operation"),
    Shown(creekdb.Outcome, "creekdb.Outcome"),
)

TRANSACTION = (
    Shown(creekdb.Transaction, "creekdb.Transaction", frozenset({"close"})),
    Shown(RequestRandom, "tx.random"),
)


def client_page() -> str:
    """Return the page on `creekdb.connect` and the objects that it returns."""
    return _page("The client", docstring_of(client, "creekdb.client"), *map(section, CLIENT))


def datatype_page() -> str:
    """Return the page on declarations of data types."""
    from creekdb.execution import datatype  # noqa: PLC0415 - the module, not the class

    return _page(
        "Data types", docstring_of(datatype, "creekdb.execution.datatype"), *map(section, DATATYPES)
    )


def transaction_page() -> str:
    """Return the page on the transaction that an operation receives."""
    from creekdb.execution import transaction  # noqa: PLC0415 - the module, not the class

    text = docstring_of(transaction, "creekdb.execution.transaction")
    return _page("Transactions", text, *map(section, TRANSACTION))


def ready_made_page() -> str:
    """Return the page on the data types that come with Creek."""
    parts = [docstring_of(datatypes, "creekdb.datatypes").partition("\n\n")[0]]
    for name, datatype in datatypes.DATATYPES.items():
        parts.append(f"## `{name}`")
        parts.append(docstring_of(_module_of(datatype), f"data type {name}"))
        for operation in _operations(datatype):
            function = datatype.function(operation)
            suffix = " (read-only)" if datatype.is_readonly(operation) else ""
            text = docstring_of(function, f"operation {operation} of {name}")
            parts.append(f"### `{datatype.signature(operation)}`{suffix}\n\n{text}")
    return _page("Ready-made data types", *parts)


def configuration_page() -> str:
    """Return the page on the keys of a replica's configuration."""
    text = inspect.getdoc(config)
    assert text is not None
    first, _, example = text.partition("\n\n")
    return _page(
        "Configuration",
        first,
        f"```toml\n{example}\n```",
        docstring_of(config.ServerConfig, "ServerConfig"),
        table(config.ServerConfig),
        "## `[security]`",
        docstring_of(config.SecurityConfig, "Security"),
        table(config.SecurityConfig, "security."),
    )


def commands_page() -> str:
    """Return the page on the command line."""
    return _page("The `creek` command", commands())


def tables_page() -> str:
    """Return the page on the tables of the pipeline."""
    return _page(
        "Tables of the pipeline",
        docstring_of(schemas, "creekdb.pipeline.schemas"),
        docstring_of(reading, "creekdb.pipeline.tables"),
        tables(),
    )


def errors_page() -> str:
    """Return the page on all errors."""
    parts = [_tree(errors), "## Errors of a call", _tree(call_errors)]
    for module in (errors, call_errors):
        for name, thing in vars(module).items():
            if inspect.isclass(thing) and thing.__module__ == module.__name__:
                parts.append(f"### `{name}` {{ #{name} }}\n\n{docstring_of(thing, name)}")
    parts.append("### `OperationRaised` { #OperationRaised }")
    parts.append(docstring_of(creekdb.OperationRaised, "OperationRaised"))
    return _page("Errors", *parts)


PAGES: dict[str, Callable[[], str]] = {
    "reference/client.md": client_page,
    "reference/datatypes.md": datatype_page,
    "reference/transactions.md": transaction_page,
    "reference/ready-made.md": ready_made_page,
    "reference/configuration.md": configuration_page,
    "reference/commands.md": commands_page,
    "reference/tables.md": tables_page,
    "reference/errors.md": errors_page,
}


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", *parts, "---", f"*{_FOOTER}*")) + "\n"


def _tree(module: Any) -> str:
    """Return a module's docstring as Markdown, with its class tree as code."""
    text = inspect.getdoc(module)
    assert text is not None
    paragraphs = [
        f"    {each}".replace("\n", "\n    ") if "├" in each and not each.startswith(" ") else each
        for each in text.split("\n\n")
    ]
    return as_markdown("\n\n".join(paragraphs))


def _module_of(datatype: creekdb.DataType) -> Any:
    return inspect.getmodule(datatype.function(_operations(datatype)[0]))


def _operations(datatype: creekdb.DataType) -> list[str]:
    """Return the operations that the data type declares itself."""
    return [each for each in datatype.operations if each != NOOP.name]
