"""Checkers as relations: what tables alone tell of a run, however long it is.

They mean what the checkers of the same names mean (`creekdb.checkers`), and say the same of a run,
as far as OPERATIONS and ORDERS hold it. Each finds the rows that break a rule with a window over
their neighbours, sorted by place, time or number: Spark sorts on disk what does not fit into
memory.

    prefix_order     committed orders are prefixes of one another, and nothing is there twice
    real_time        what was invoked after a stable answer is committed after it
    session_order    the order of sessions and replicas is kept
    committed_once   whoever got an answer for good stands in the order, where everybody has it

The last one has no namesake: it holds what clients were told against what replicas did.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from creekdb import datatypes
from creekdb.protocol.settings import Settings
from creekdb.schemes import registry

ILLEGAL: Final = "illegal"
UNKNOWN: Final = "unknown"


def find_violations(runs: DataFrame, operations: DataFrame, orders: DataFrame) -> DataFrame:
    """(run, checker, verdict, detail) of each run and checker that is not content. One
    counterexample each: the first, in the order of places or of numbers."""
    promised = _with_scheme_guarantees(runs, operations)
    agreed = _commit_positions(orders)
    parts = [
        _position_disagreements(agreed, "prefix_order"),
        _duplicate_commits(agreed, "prefix_order"),
        _position_gaps(agreed, "prefix_order"),
        _uncommitted_responses(promised.where(_is_ordered_as_strong()), "stable_us", "real_time"),
        _real_time_violations(promised.where(_is_ordered_as_strong()), ("run",), "real_time"),
        _replica_order_violations(promised, agreed, "session_order"),
        _session_order_violations(promised, "session_order"),
        _real_time_violations(promised, ("run", "session"), "session_order"),
        _uncommitted_responses(promised, "coalesce(stable_us, final_us)", "committed_once"),
        _position_conflicts(promised, agreed, "committed_once"),
    ]
    everything = reduce(DataFrame.unionByName, parts)
    # A rule that is broken counts for more than one that cannot be judged.
    first = F.struct("verdict", "place", "detail")
    worst = everything.groupBy("run", "checker").agg(F.min(first).alias("first"))
    return worst.select("run", "checker", "first.verdict", "first.detail")


RELATIONAL_CHECKERS: Final = ("prefix_order", "real_time", "session_order", "committed_once")


# --- what is looked at -------------------------------------------------------------------------


def _with_scheme_guarantees(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Operations, and whether the scheme of their run gives tentative answers."""
    terms = runs.select("run", _has_tentative_responses(F.col("scheme")).alias("tentative"))
    return operations.join(F.broadcast(terms), "run")


def _has_tentative_responses(scheme: Column) -> Column:
    """Those of Creek unless the scheme is known to differ."""
    settings, datatype = Settings(members=(0,)), datatypes.get_datatype("register")
    made = {name: make(0, settings, datatype) for name, make in registry.SCHEMES.items()}
    without = [name for name, replica in made.items() if not replica.guarantees.tentative]
    return ~scheme.isin(without)


def _is_ordered_as_strong() -> Column:
    """Where all answers are stable, all operations are as strong."""
    return F.col("strong") | ~F.col("tentative")


def _commit_positions(orders: DataFrame) -> DataFrame:
    """A row per place: who stands there as one replica says, and as another one does."""
    said = F.struct("origin", "event", "replica")
    return orders.groupBy("run", "index").agg(F.min(said).alias("one"), F.max(said).alias("other"))


# --- what is wrong with it ---------------------------------------------------------------------


def _first_violation(
    frame: DataFrame, checker: str, place: str, text: str, *values: str, verdict: str = ILLEGAL
) -> DataFrame:
    """The first row of each run, by `place`, told with `text`; `values` are SQL."""
    rows = frame.selectExpr(
        "run",
        f"cast({place} as bigint) as place",
        f"format_string('{text}', {', '.join(values)}) as detail",
    )
    first = rows.groupBy("run").agg(
        F.min("place").alias("place"), F.min_by("detail", "place").alias("detail")
    )
    return first.select(
        "run", F.lit(checker).alias("checker"), F.lit(verdict).alias("verdict"), "place", "detail"
    )


def _ms(time_us: str) -> str:
    return f"{time_us} / 1000"


def _position_disagreements(agreed: DataFrame, checker: str) -> DataFrame:
    return _first_violation(
        agreed.where("(one.origin, one.event) != (other.origin, other.event)"),
        checker,
        "index",
        "two requests are committed at index %d: %d.%d at replica %d, and %d.%d at replica %d",
        *("index", "one.origin", "one.event", "one.replica"),
        *("other.origin", "other.event", "other.replica"),
    )


def _duplicate_commits(agreed: DataFrame, checker: str) -> DataFrame:
    places = agreed.groupBy("run", "one.origin", "one.event").agg(
        F.min("index").alias("first"), F.max("index").alias("last")
    )
    return _first_violation(
        places.where("first != last"),
        checker,
        "first",
        "%d.%d is committed twice, at %d and at %d",
        *("origin", "event", "first", "last"),
    )


def _position_gaps(agreed: DataFrame, checker: str) -> DataFrame:
    spans = agreed.selectExpr(
        "run",
        "index",
        "index - lag(index, 1, -1) over (partition by run order by index) as step",
    )
    return _first_violation(
        spans.where("step > 1"),
        checker,
        "index - step + 1",
        "no replica tells which request is committed at index %d",
        "index - step + 1",
        verdict=UNKNOWN,
    )


def _uncommitted_responses(operations: DataFrame, answered_us: str, checker: str) -> DataFrame:
    return _first_violation(
        operations.where(f"{answered_us} is not null and commit_index is null"),
        checker,
        answered_us,
        "%d.%d got an answer for good, at %.3f ms, but is not on committed",
        *("replica", "event", _ms(answered_us)),
    )


def _real_time_violations(
    operations: DataFrame, within: tuple[str, ...], checker: str
) -> DataFrame:
    """A stable answer, and an operation that was invoked after it and is committed before it: of
    all that stand before the answered one, the one that was invoked last tells."""
    beside = operations.where("commit_index is not null").selectExpr(
        "*",
        f"""max(struct(invoked_us, replica, event, commit_index)) over (
            partition by {", ".join(within)} order by commit_index
            range between unbounded preceding and 1 preceding) as late""",
    )
    return _first_violation(
        beside.where("late.invoked_us > stable_us"),
        checker,
        "commit_index",
        "%d.%d had its stable answer at %.3f ms, before %d.%d was invoked at %.3f ms, but is "
        "committed after it, at %d against %d",
        *("replica", "event", _ms("stable_us")),
        *("late.replica", "late.event", _ms("late.invoked_us")),
        *("commit_index", "late.commit_index"),
    )


def _replica_order_violations(operations: DataFrame, agreed: DataFrame, checker: str) -> DataFrame:
    """Weak requests come before all that their replica issues later. Operations that clients asked
    for are known with their strength; the rest of an order are strong no-ops of replicas. An
    identifier that was given twice, after a crash, means the last request."""
    asked = operations.where("event >= 0").selectExpr(
        "run", "replica", "event", "incarnation", "tentative and not strong as weak", "commit_index"
    )
    ordered = agreed.selectExpr(
        "run",
        "one.origin as replica",
        "one.event",
        "-1 as incarnation",
        "false as weak",
        "index as commit_index",
    )
    issued = (
        asked.unionByName(ordered)
        .groupBy("run", "replica", "event")
        .agg(
            F.max_by("weak", "incarnation").alias("weak"),
            F.max_by("commit_index", "incarnation").alias("commit_index"),
        )
    )
    beside = issued.selectExpr(
        "*",
        f"""max(case when weak then struct(coalesce(commit_index, {_UNCOMMITTED_POSITION}) as place,
        event) end)
            over (partition by run, replica order by event
            rows between unbounded preceding and 1 preceding) as earlier""",
    )
    return _first_violation(
        beside.where("earlier.place > commit_index"),
        checker,
        "commit_index",
        "%d.%d is committed at %d without the weak %d.%d before it, which its replica issued "
        "earlier",
        *("replica", "event", "commit_index", "replica", "earlier.event"),
    )


_UNCOMMITTED_POSITION: Final = f"{2**62}L"
"""The place of what is not committed: behind everything."""


def _session_order_violations(operations: DataFrame, checker: str) -> DataFrame:
    """Weak operations come before all that their session invokes later at the same replica."""
    beside = operations.where("tentative and commit_index is not null").selectExpr(
        "*",
        """max(case when not strong then struct(commit_index as place, event) end)
            over (partition by run, session, replica, incarnation order by invoked_us, event
            rows between unbounded preceding and 1 preceding) as earlier""",
    )
    return _first_violation(
        beside.where("earlier.place > commit_index"),
        checker,
        "commit_index",
        "%d.%d is committed at %d, before the weak %d.%d at %d, which its session, %d, invoked "
        "earlier",
        *("replica", "event", "commit_index", "replica", "earlier.event", "earlier.place"),
        "session",
    )


def _position_conflicts(operations: DataFrame, agreed: DataFrame, checker: str) -> DataFrame:
    """Somebody else stands where an operation is said to be."""
    claimed = operations.where("commit_index is not null").alias("asked")
    same_place = F.expr("asked.run = placed.run and asked.commit_index = placed.index")
    beside = claimed.join(agreed.alias("placed"), same_place).selectExpr("asked.*", "one", "other")
    return _first_violation(
        beside.where(
            "(one.origin, one.event) != (replica, event) "
            "or (other.origin, other.event) != (replica, event)"
        ),
        checker,
        "commit_index",
        "%d.%d should be committed at %d, but others have %d.%d or %d.%d there",
        *("replica", "event", "commit_index"),
        *("one.origin", "one.event", "other.origin", "other.event"),
    )
