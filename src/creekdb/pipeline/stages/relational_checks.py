"""Checkers as relational queries, for runs of any length.

They check the properties of the checkers of the same names (`creekdb.checkers`), as far as
OPERATIONS and ORDERS contain the data. Each query finds violations with a window over rows sorted
by position, time or number. Spark sorts on disk if the rows exceed memory.

    prefix_order     committed orders are prefixes of one another, without duplicates
    real_time        an operation invoked after a stable response is committed after it
    session_order    the committed order preserves the order of sessions and replicas
    committed_once   an operation with a stable or final response has one commit position

`committed_once` has no counterpart there: it compares responses to clients with replica orders.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.schemes import registry

ILLEGAL: Final = "illegal"
UNKNOWN: Final = "unknown"


def find_violations(runs: DataFrame, operations: DataFrame, orders: DataFrame) -> DataFrame:
    """Return (run, checker, verdict, detail) of each violated or undecided checker of each run.

    The detail is the first counterexample, by position or number.
    """
    guaranteed = _with_scheme_guarantees(runs, operations)
    # Schemes with stable responses only order all operations like strong ones.
    strong = guaranteed.where("strong or not tentative")
    positions = _commit_positions(orders)
    violations = {
        "prefix_order": [
            _position_disagreements(positions),
            _duplicate_commits(positions),
            _position_gaps(positions),
        ],
        "real_time": [
            _uncommitted_responses(strong, "stable_us"),
            _real_time_violations(strong, ("run",)),
        ],
        "session_order": [
            _replica_order_violations(guaranteed, positions),
            _session_order_violations(guaranteed),
            _real_time_violations(guaranteed, ("run", "session")),
        ],
        "committed_once": [
            _uncommitted_responses(guaranteed, "coalesce(stable_us, final_us)"),
            _position_conflicts(guaranteed, positions),
        ],
    }
    parts = [
        frame.withColumn("checker", F.lit(checker))
        for checker, frames in violations.items()
        for frame in frames
    ]
    # `illegal` sorts before `unknown`.
    first = F.struct("verdict", "position", "detail")
    worst = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("run", "checker")
        .agg(F.min(first).alias("first"))
    )
    return worst.select("run", "checker", "first.verdict", "first.detail")


RELATIONAL_CHECKERS: Final = ("prefix_order", "real_time", "session_order", "committed_once")


# --- inputs ------------------------------------------------------------------------------------


def _with_scheme_guarantees(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Add a column `tentative`: True if the scheme of the run sends tentative responses.

    An unknown scheme counts as Creek.
    """
    specs = registry.SCHEMES.values()
    stable_only = F.col("scheme").isin(
        [each.name for each in specs if not each.guarantees.tentative]
    )
    guarantees = runs.select("run", (~stable_only).alias("tentative"))
    return operations.join(F.broadcast(guarantees), "run")


def _commit_positions(orders: DataFrame) -> DataFrame:
    """Return one row per position, with the lowest and the highest request committed there."""
    entry = F.struct("origin", "event", "replica")
    return orders.groupBy("run", "index").agg(
        F.min(entry).alias("one"), F.max(entry).alias("other")
    )


# --- violations --------------------------------------------------------------------------------


def _first_violation(
    frame: DataFrame, position: str, text: str, *values: str, verdict: str = ILLEGAL
) -> DataFrame:
    """Return the first row of each run by `position`, formatted with `text`; `values` are SQL."""
    rows = frame.selectExpr(
        "run",
        f"cast({position} as bigint) as position",
        f"format_string('{text}', {', '.join(values)}) as detail",
    )
    return rows.groupBy("run").agg(
        F.lit(verdict).alias("verdict"),
        F.min("position").alias("position"),
        F.min_by("detail", "position").alias("detail"),
    )


def _ms(time_us: str) -> str:
    return f"{time_us} / 1000"


def _position_disagreements(positions: DataFrame) -> DataFrame:
    return _first_violation(
        positions.where("(one.origin, one.event) != (other.origin, other.event)"),
        "index",
        "two requests are committed at index %d: %d.%d at replica %d, and %d.%d at replica %d",
        *("index", "one.origin", "one.event", "one.replica"),
        *("other.origin", "other.event", "other.replica"),
    )


def _duplicate_commits(positions: DataFrame) -> DataFrame:
    requests = positions.groupBy("run", "one.origin", "one.event").agg(
        F.min("index").alias("first"), F.max("index").alias("last")
    )
    return _first_violation(
        requests.where("first != last"),
        "first",
        "%d.%d is committed twice, at %d and at %d",
        *("origin", "event", "first", "last"),
    )


def _position_gaps(positions: DataFrame) -> DataFrame:
    spans = positions.selectExpr(
        "run",
        "index",
        "index - lag(index, 1, -1) over (partition by run order by index) as step",
    )
    return _first_violation(
        spans.where("step > 1"),
        "index - step + 1",
        "no replica recorded the request at index %d",
        "index - step + 1",
        verdict=UNKNOWN,
    )


def _uncommitted_responses(operations: DataFrame, response_us: str) -> DataFrame:
    return _first_violation(
        operations.where(f"{response_us} is not null and commit_index is null"),
        response_us,
        "%d.%d got a stable or final response at %.3f ms, but is not committed",
        *("replica", "event", _ms(response_us)),
    )


def _real_time_violations(operations: DataFrame, within: tuple[str, ...]) -> DataFrame:
    """Find an operation that is committed before one whose stable response preceded it.

    Among the operations at earlier positions, only the one invoked last is relevant.
    """
    with_latest = operations.where("commit_index is not null").selectExpr(
        "*",
        f"""max(struct(invoked_us, replica, event, commit_index)) over (
            partition by {", ".join(within)} order by commit_index
            range between unbounded preceding and 1 preceding) as late""",
    )
    return _first_violation(
        with_latest.where("late.invoked_us > stable_us"),
        "commit_index",
        "%d.%d got its stable response at %.3f ms, before %d.%d was invoked at %.3f ms, but is "
        "committed after it (at %d, after %d)",
        *("replica", "event", _ms("stable_us")),
        *("late.replica", "late.event", _ms("late.invoked_us")),
        *("commit_index", "late.commit_index"),
    )


def _replica_order_violations(operations: DataFrame, positions: DataFrame) -> DataFrame:
    """Find requests that precede an earlier weak request of their replica.

    OPERATIONS holds the strength of client operations. All other requests of an order are strong
    no-ops of replicas. After a crash, an identifier may recur; it denotes the last request.
    """
    invoked = operations.where("event >= 0").selectExpr(
        "run", "replica", "event", "incarnation", "tentative and not strong as weak", "commit_index"
    )
    ordered = positions.selectExpr(
        "run",
        "one.origin as replica",
        "one.event",
        "-1 as incarnation",
        "false as weak",
        "index as commit_index",
    )
    issued = (
        invoked.unionByName(ordered)
        .groupBy("run", "replica", "event")
        .agg(
            F.max_by("weak", "incarnation").alias("weak"),
            F.max_by("commit_index", "incarnation").alias("commit_index"),
        )
    )
    with_earlier = issued.selectExpr(
        "*",
        f"""max(case when weak then
            struct(coalesce(commit_index, {_UNCOMMITTED_POSITION}) as position, event) end)
            over (partition by run, replica order by event
            {_PRECEDING_ROWS}) as earlier""",
    )
    return _first_violation(
        with_earlier.where("earlier.position > commit_index"),
        "commit_index",
        "%d.%d is committed at %d without the weak %d.%d before it, which its replica issued "
        "earlier",
        *("replica", "event", "commit_index", "replica", "earlier.event"),
    )


_UNCOMMITTED_POSITION: Final = f"{2**62}L"
"""Position of uncommitted requests: after all others."""
_PRECEDING_ROWS: Final = "rows between unbounded preceding and 1 preceding"


def _session_order_violations(operations: DataFrame) -> DataFrame:
    """Find operations that precede an earlier weak operation of their session and replica."""
    with_earlier = operations.where("tentative and commit_index is not null").selectExpr(
        "*",
        f"""max(case when not strong then struct(commit_index as position, event) end)
            over (partition by run, session, replica, incarnation order by invoked_us, event
            {_PRECEDING_ROWS}) as earlier""",
    )
    return _first_violation(
        with_earlier.where("earlier.position > commit_index"),
        "commit_index",
        "%d.%d is committed at %d, before the weak %d.%d at %d, which its session, %d, invoked "
        "earlier",
        *("replica", "event", "commit_index", "replica", "earlier.event", "earlier.position"),
        "session",
    )


def _position_conflicts(operations: DataFrame, positions: DataFrame) -> DataFrame:
    """Find operations at whose commit position a replica has another request."""
    committed = operations.where("commit_index is not null").alias("committed")
    same_position = F.expr("committed.run = agreed.run and committed.commit_index = agreed.index")
    compared = committed.join(positions.alias("agreed"), same_position).selectExpr(
        "committed.*", "one", "other"
    )
    return _first_violation(
        compared.where(
            "(one.origin, one.event) != (replica, event) "
            "or (other.origin, other.event) != (replica, event)"
        ),
        "commit_index",
        "%d.%d should be committed at %d, but replicas have %d.%d or %d.%d there",
        *("replica", "event", "commit_index"),
        *("one.origin", "one.event", "other.origin", "other.event"),
    )
