"""Failures of Spark as errors of one line, with cause and remedy.

Spark reports most failures of tasks as one exception whose text contains the traces of all causes.
The first rule whose pattern occurs in the text explains the failure. The texts are the same for a
driver of this process and for a Connect server.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from creekdb.errors import CreekError, DiskFull, HelperEnded, StorageFault, UsageError

RESUME_HINT: Final = "run the same command to continue"

_SPARK_MODULES: Final = ("py4j.", "pyspark.", "grpc.")
_QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers that print the text of an exception before it is raised."""

_WRITTEN_PATH = re.compile(r"(?:writing rows to|No space left on device: )\s*'?([^\s']+?)'?\.?\s")
_LOST_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_ROOT_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")


class _Rule(NamedTuple):
    pattern: "re.Pattern[str]"
    explain: Callable[["re.Match[str]", str], CreekError]


def explain_failure(error: BaseException) -> CreekError | None:
    """Return the error of one line for an exception of Spark, or None if its cause is unknown."""
    if not type(error).__module__.startswith(_SPARK_MODULES):
        return None
    text = f"{error}\n"
    for rule in _RULES:
        if match := rule.pattern.search(text):
            return rule.explain(match, text)
    return None


@contextmanager
def explained_failures() -> Iterator[None]:
    """Raise the error of one line in place of an exception of Spark whose cause is known."""
    try:
        with _quiet_query_loggers():
            yield
    except CreekError:
        raise
    except Exception as error:
        if (explained := explain_failure(error)) is not None:
            raise explained from error
        raise


@contextmanager
def _quiet_query_loggers() -> Iterator[None]:
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - optional dependency
    except ImportError:  # The start of a session reports the missing package.
        yield
        return
    loggers = [PySparkLogger.getLogger(name) for name in _QUERY_LOGGERS]
    saved = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, saved, strict=True):
            logger.disabled = was_disabled


# --- rules --------------------------------------------------------------------------------------


def _disk_full(_: "re.Match[str]", text: str) -> CreekError:
    path = _WRITTEN_PATH.search(text)
    place = _path(path[1]) if path else f"temporary files{_host(text)}"
    return DiskFull(f"cannot write {place}: no space left on device; free some, then {RESUME_HINT}")


def _removed_file(match: "re.Match[str]", _: str) -> CreekError:
    return StorageFault(
        f"{_path(match[1])} was removed while Spark read it; run the stage again that reads it"
    )


def _damaged_file(match: "re.Match[str]", text: str) -> CreekError:
    causes = _ROOT_CAUSE.findall(text)
    cause = causes[-1] if causes else "Spark cannot read it"
    if "CRC checksum" in cause:
        cause = "a page does not match its checksum"
    return StorageFault(
        f"{_path(match[1])} is damaged: {cause}; delete it, and run the stage again that wrote it"
    )


def _missing_column(match: "re.Match[str]", _: str) -> CreekError:
    return StorageFault(
        f"a table has no column {match[1]}: another version of Creek wrote it; "
        "run the stage again that wrote it"
    )


def _missing_path(match: "re.Match[str]", _: str) -> CreekError:
    return UsageError(f"{_path(match[1])} does not exist; name the output of an earlier stage")


def _unknown_scheme(match: "re.Match[str]", _: str) -> CreekError:
    return UsageError(
        f"Spark has no file system for {match[1]}:// paths; use another path, or add the file "
        "system with --conf spark.jars.packages=GROUP:NAME:VERSION"
    )


def _missing_file_system(match: "re.Match[str]", _: str) -> CreekError:
    return UsageError(
        f"Spark has no file system for {match[2]}:// paths: the class {match[1]} is missing; add "
        "its package with --conf spark.jars.packages=GROUP:NAME:VERSION"
    )


def _unreachable_storage(match: "re.Match[str]", _: str) -> CreekError:
    return StorageFault(
        f"cannot connect to the file system at {match[1]}; start it, or correct the path"
    )


def _denied(match: "re.Match[str]", _: str) -> CreekError:
    path = match["created"] or match["denied"] or match["opened"]
    return StorageFault(
        f"cannot write {_path(path)}: permission denied, or a parent directory is missing"
    )


def _missing_module(match: "re.Match[str]", _: str) -> CreekError:
    return UsageError(
        f"executors cannot import {match[1]}; send it with --py-files, or its package with "
        "'creek pipeline pack'"
    )


def _out_of_memory(_: "re.Match[str]", text: str) -> CreekError:
    return HelperEnded(
        f"Spark has too little memory{_host(text)}; raise --driver-memory, or on a cluster "
        f"--conf spark.executor.memory, then {RESUME_HINT}"
    )


def _lost_process(_: "re.Match[str]", text: str) -> CreekError:
    return HelperEnded(
        f"the process of a task was lost repeatedly{_host(text)}, often for lack of memory; give "
        f"executors more memory or fewer cores, then {RESUME_HINT}"
    )


def _lost_master(match: "re.Match[str]", _: str) -> CreekError:
    return HelperEnded(
        f"Spark ended the application: {match[0].strip().rstrip('.!')}; check that the master and "
        f"its workers run, then {RESUME_HINT}"
    )


def _lost_server(match: "re.Match[str]", _: str) -> CreekError:
    return HelperEnded(
        f"the connection to the Spark Connect server was lost: {match[0].strip()}; check that the "
        f"server runs, then {RESUME_HINT}"
    )


def _path(uri: str) -> str:
    """Return a local path for a URI of a local file, and other URIs unchanged."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _host(text: str) -> str:
    match = _LOST_HOST.search(text)
    return f" on {match[1]}" if match else ""


_RULES: Final = [
    _Rule(re.compile(pattern), explain)
    for pattern, explain in (
        (r"No space left on device", _disk_full),
        (r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .*? reading file (\S+?)\.\s", _removed_file),
        (r"\[FAILED_READ_FILE\.[A-Z_]+\] .*? reading file (\S+?)\.\s", _damaged_file),
        (r"\[UNRESOLVED_COLUMN[^\]]*\] .*? name (`[^`]+`)", _missing_column),
        (r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.\s", _missing_path),
        (r'No FileSystem for scheme "?([\w+.-]+)', _unknown_scheme),
        (r"Class ([\w.]+\.fs\.(\w+)\.\w+) not found", _missing_file_system),
        (r"Call From \S+ to (\S+) failed on connection exception", _unreachable_storage),
        (
            r"Mkdirs failed to create (?P<created>[^\s(]+)"
            r"|Permission denied: user=.*?inode=\"?(?P<denied>[^\s\":]+)"
            r"|Permission denied: '(?P<opened>[^']+)'",
            _denied,
        ),
        (r"ModuleNotFoundError: No module named '([\w.]+)'", _missing_module),
        (r"java\.lang\.OutOfMemoryError", _out_of_memory),
        (r"Python worker exited unexpectedly|ExecutorLostFailure", _lost_process),
        (
            r"Master removed our application[^\n]*|All masters are unresponsive[^\n]*"
            r"|SparkContext was shut down|Cannot call methods on a stopped SparkContext",
            _lost_master,
        ),
        (
            r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|Socket closed"
            r"|\[RETRIES_EXCEEDED\]",
            _lost_server,
        ),
    )
]
