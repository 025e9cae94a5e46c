"""Checkers as relational queries, for runs of any length.

They check the properties of the checkers of the same names (`creekdb.checkers`), as far as the
tables contain the data. `committed_order` cuts each run into buckets of positions, so that tasks
share a long run.

    prefix_order     committed orders are prefixes of one another, without duplicates
    real_time        an operation invoked after a stable response is committed after it
    session_order    the committed order preserves the order of sessions and replicas
    committed_once   an operation with a stable or final response has one commit position
    convergence      members end with equal orders and states, and without lost operations

`committed_once` has no counterpart there: it compares responses to clients with replica orders.

The queries find the first violation of each property and run, and nothing else about it. The
counterpart of a violation, such as the operation that should have come later, is then looked up by
a filter on its run. A run without violations needs no lookup.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.pipeline.checks import committed_order, convergence
from creekdb.pipeline.checks.committed_order import (
    BUCKET,
    POSITIONS_PER_BUCKET,
    UNCLAIMED,
    event_of,
    replica_of,
)
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.checks.verdict_names import ILLEGAL, RELATIONAL_CHECKERS, UNKNOWN

_CHECKER_PARTS: Final = {
    "prefix_order": ("disagreement", "duplicate", "gap"),
    "real_time": ("uncommitted_stable", "real_time"),
    "session_order": ("replica_order", "session_order", "session_real_time"),
    "committed_once": ("uncommitted", "conflict"),
    "convergence": ("final_states", "lost_response"),
}
SUSPECTS_MAX: Final = 10_000
"""Number of suspects up to which the driver holds them."""
assert tuple(_CHECKER_PARTS) == RELATIONAL_CHECKERS


def find_violations(
    runs: DataFrame,
    operations: DataFrame,
    orders: DataFrame,
    final_states: DataFrame,
    shared: SharedFrames,
    bucket_size: int = POSITIONS_PER_BUCKET,
) -> DataFrame:
    """Return (run, checker, verdict, detail) of each violated or undecided checker of each run.

    The detail is the first counterexample, by position or number. The returned frame is valid until
    `shared` is closed.
    """
    numbered = shared.share(committed_order.numbered_runs(runs))
    rows = committed_order.count_rows(operations, orders)
    invoked = committed_order.invocations(numbered, operations, bucket_size)
    ordered = committed_order.entries(numbered, orders, bucket_size)
    uncommitted = _uncommitted_weak(invoked) if rows.uncommitted else None
    suspects = [convergence.final_state_suspects(numbered, final_states)]
    if rows.uncommitted:
        suspects.append(_response_suspects(invoked))
        suspects.append(convergence.lost_responses(numbered, invoked, final_states))
    candidates = _Candidates(invoked, uncommitted, ordered)
    suspects += _order_suspects(candidates, rows.partitions, bucket_size, shared)
    first = shared.share(_first_suspects(suspects))
    parts = set(_EXPLAINED_PARTS)
    listed = first.limit(SUSPECTS_MAX + 1).collect()
    if len(listed) <= SUSPECTS_MAX:
        # A frame of these rows is much cheaper to plan than the queries that found them.
        first = runs.sparkSession.createDataFrame(listed, first.schema)
        parts &= {row["part"] for row in listed}
    explained = [
        first.where("detail is not null").select("number", "part", "position", "detail"),
        *_explanations(first, parts, candidates),
    ]
    return _verdicts(reduce(DataFrame.unionByName, explained), numbered)


def _order_suspects(
    candidates: "_Candidates", partitions: int | None, bucket_size: int, shared: SharedFrames
) -> list[DataFrame]:
    """Return suspects of the committed order. Queries without a result are left out."""
    invoked, uncommitted, ordered = candidates
    agreed = shared.share(committed_order.agreed_order(invoked, ordered, partitions))
    found = committed_order.summarise(agreed)
    suspects = []
    duplicates = None
    if found.unclaimed:
        duplicates = shared.share(_duplicates(agreed))
        suspects.append(_duplicate_suspects(duplicates))
    if found.contradictions:
        suspects += [_disagreements(agreed), _conflicts(agreed)]
    if found.gaps:
        suspects += _gaps(agreed)
    requests = _requests(invoked, agreed, duplicates)
    if found.last_bucket:
        totals = shared.share(committed_order.bucket_totals(requests, agreed))
        carried = committed_order.carried_rows(totals, bucket_size)
        requests = requests.unionByName(carried, allowMissingColumns=True)
    spread = committed_order.spread(requests, partitions)
    return [*suspects, _misplaced_requests(spread, uncommitted)]


def _verdicts(explained: DataFrame, numbered: DataFrame) -> DataFrame:
    """Return the first violation of each checker, by run name."""
    checkers = [
        f"when '{part}' then '{checker}'"
        for checker, parts in _CHECKER_PARTS.items()
        for part in parts
    ]
    judged = explained.selectExpr(
        "number",
        f"case part {' '.join(checkers)} end as checker",
        # `illegal` sorts before `unknown`.
        f"if(part = 'gap', '{UNKNOWN}', '{ILLEGAL}') as verdict",
        *("position", "detail"),
    )
    worst = judged.groupBy("number", "checker").agg(
        F.min(F.struct("verdict", "position", "detail")).alias("first")
    )
    return worst.join(numbered.select("run", "number"), "number").select(
        "run", "checker", "first.verdict", "first.detail"
    )


# --- requests, by position ------------------------------------------------------------------------


def _duplicates(agreed: DataFrame) -> DataFrame:
    """Return requests at several positions, with the first and the last one.

    At most one position of a request is that of its operation, so the others identify it.
    """
    unclaimed = agreed.where(UNCLAIMED).select("number", "one").distinct()
    return (
        agreed.join(unclaimed, ["number", "one"], "left_semi")
        .groupBy("number", "one")
        .agg(F.min("index").alias("first"), F.max("index").alias("last"))
        .where("first != last")
    )


def _requests(invoked: DataFrame, agreed: DataFrame, duplicates: DataFrame | None) -> DataFrame:
    """Return committed requests by position.

    Requests that no client invoked are strong no-ops of replicas. A duplicate of an operation is
    not among them. Without such positions, `duplicates` is None.
    """
    operations = invoked.where("commit_index is not null").selectExpr(
        *(*BUCKET, "commit_index as index", "replica", "event", "incarnation", "session"),
        *("strong", "weak", "invoked_us", "stable_us", "false as is_carried"),
    )
    if duplicates is None:
        return operations
    noops = (
        agreed.where(UNCLAIMED)
        .join(duplicates, ["number", "one"], "left_anti")
        .selectExpr(
            *(*BUCKET, "index", f"cast({replica_of('one')} as int) as replica"),
            f"{event_of('one')} as event",
            *("false as weak", "false as is_carried"),
        )
    )
    return operations.unionByName(noops, allowMissingColumns=True)


def _uncommitted_weak(invoked: DataFrame) -> DataFrame:
    """Return weak operations that are not committed.

    After a crash, an identifier may recur; it denotes the last request.
    """
    uncommitted = invoked.where("weak and commit_index is null and event >= 0")
    later = invoked.where("incarnation > 0").alias("later")
    same = (
        "each.number = later.number and each.replica = later.replica and each.event = later.event"
    )
    return uncommitted.alias("each").join(
        later, F.expr(f"{same} and each.incarnation < later.incarnation"), "left_anti"
    )


# --- suspects: the first violations ---------------------------------------------------------------


def _first_suspects(suspects: list[DataFrame]) -> DataFrame:
    """Return the first suspect of each part of a checker, by position."""
    rows = reduce(lambda left, right: left.unionByName(right, True), suspects)
    columns = ("position", "detail", "replica", "event", "incarnation", "session", "invoked_us")
    first = F.min(F.struct(*columns, "stable_us")).alias("first")
    return rows.groupBy("number", "part").agg(first).select("number", "part", "first.*")


def _suspect(part: str, position: str, text: str, *values: str) -> list[str]:
    """Return columns of a suspect with its detail, from `text`; `values` are SQL."""
    return [
        "number",
        f"'{part}' as part",
        f"cast({position} as bigint) as position",
        f"format_string('{text}', {', '.join(values)}) as detail",
    ]


def _disagreements(agreed: DataFrame) -> DataFrame:
    return agreed.where("one != other").selectExpr(
        "number", "'disagreement' as part", "index as position"
    )


def _conflicts(agreed: DataFrame) -> DataFrame:
    """Return operations at whose commit position a replica has another request."""
    wrong = "if(first_invoked != one or one != other, first_invoked, last_invoked)"
    names = [sql(id) for id in (wrong, "one", "other") for sql in (replica_of, event_of)]
    return agreed.where(committed_order.CONFLICTING).selectExpr(
        *_suspect(
            "conflict",
            "index",
            "%d.%d should be committed at %d, but replicas have %d.%d or %d.%d there",
            *(*names[:2], "index", *names[2:]),
        )
    )


def _duplicate_suspects(duplicates: DataFrame) -> DataFrame:
    return duplicates.selectExpr(
        *_suspect(
            "duplicate",
            "first",
            "%d.%d is committed twice, at %d and at %d",
            *(replica_of("one"), event_of("one"), "first", "last"),
        )
    )


def _gaps(agreed: DataFrame) -> list[DataFrame]:
    """Return the first position that no replica recorded before a bucket, and those inside."""
    recorded = agreed.where("one is not null")
    ranges = recorded.groupBy(*BUCKET).agg(
        F.count("*").alias("positions"), F.min("index").alias("low"), F.max("index").alias("high")
    )
    expected = "lag(high, 1, -1) over (partition by number order by bucket) + 1"
    before = ranges.selectExpr("number", "low", f"{expected} as missing").where("low > missing")
    broken = ranges.where("positions < high - low + 1").select(*BUCKET)
    step = f"index - lag(index) over (partition by {', '.join(BUCKET)} order by index)"
    inside = (
        recorded.join(broken, [*BUCKET], "left_semi")
        .selectExpr("number", "index", f"{step} as step")
        .where("step > 1")
        .selectExpr("number", "index - step + 1 as missing")
    )
    text = "no replica recorded the request at index %d"
    return [
        each.selectExpr(*_suspect("gap", "missing", text, "missing")) for each in (before, inside)
    ]


def _misplaced_requests(rows: DataFrame, uncommitted: DataFrame | None) -> DataFrame:
    """Return requests that are committed before a request that they must follow, or vice versa.

    real_time           stable response before an invocation at an earlier position
    session_real_time   the same, within a session
    session_order       weak call of the session, replica and incarnation, before its own, at a
                        later position
    replica_order       weak request of the replica, with a lower number, at a later position or
                        not committed
    """
    strong_us = _in_bucket("max", "if(strong, invoked_us, null)", "", "index")
    session_us = _in_bucket("max", "invoked_us", "session", "index")
    call = "struct(invoked_us, event)"
    weak_call = _in_bucket(
        "min", f"if(weak, {call}, null)", "session, replica, incarnation", "index desc"
    )
    weak_event = _in_bucket("min", "if(weak, event, null)", "replica", "index desc")
    compared = rows.selectExpr(
        "*",
        f"{strong_us} as strong_us",
        f"{session_us} as session_us",
        f"{weak_call} as weak_call",
        f"{weak_event} as weak_event",
    )
    conditions = {
        "real_time": "strong and strong_us > stable_us",
        "session_real_time": "session_us > stable_us",
        "session_order": f"weak_call < {call}",
        "replica_order": "weak_event < event",
    }
    if uncommitted is not None:
        lowest = uncommitted.groupBy("number", "replica").agg(F.min("event").alias("lost_event"))
        compared = compared.join(F.broadcast(lowest), ["number", "replica"], "left")
        conditions["replica_order"] = "least(weak_event, lost_event) < event"
    parts = ", ".join(f"if({condition}, '{part}', null)" for part, condition in conditions.items())
    return (
        compared.where("not is_carried")
        .where(" or ".join(f"({each})" for each in conditions.values()))
        .withColumn("part", F.expr(f"explode(array_compact(array({parts})))"))
        .selectExpr(
            *("number", "part", "index as position", "replica", "event", "incarnation", "session"),
            *("invoked_us", "stable_us"),
        )
    )


def _in_bucket(function: str, value: str, within: str, order: str) -> str:
    """Return a window over the preceding positions of a bucket, or the following ones."""
    keys = ", ".join((*BUCKET, *filter(None, [within])))
    return (
        f"{function}({value}) over (partition by {keys} order by {order} "
        "range between unbounded preceding and 1 preceding)"
    )


def _response_suspects(invoked: DataFrame) -> DataFrame:
    """Return operations that got a stable or final response, but are not committed."""
    text = "%d.%d got a stable or final response at %.3f ms, but is not committed"
    uncommitted = invoked.where("commit_index is null")
    parts = {
        "uncommitted_stable": ("strong and stable_us is not null", "stable_us"),
        "uncommitted": (
            "coalesce(stable_us, final_us) is not null",
            "coalesce(stable_us, final_us)",
        ),
    }
    rows = "array_compact(array({}))".format(
        ", ".join(
            f"if({condition}, struct('{part}' as part, {at_us} as at_us), null)"
            for part, (condition, at_us) in parts.items()
        )
    )
    answered = uncommitted.where("stable_us is not null or final_us is not null")
    return answered.selectExpr("number", "replica", "event", f"inline({rows})").selectExpr(
        "number",
        "part",
        "at_us as position",
        f"format_string('{text}', replica, event, at_us / 1000) as detail",
    )


# --- explanations: the counterparts of suspects ---------------------------------------------------


class _Candidates(NamedTuple):
    """Rows among which the counterparts of suspects are found."""

    invoked: DataFrame
    uncommitted: DataFrame | None
    ordered: DataFrame

    @property
    def committed(self) -> DataFrame:
        return self.invoked.where("commit_index is not null")

    @property
    def weak(self) -> DataFrame:
        """Weak requests, those that are not committed after all others."""
        committed = self.committed.where("weak")
        if self.uncommitted is None:
            return committed
        after_all = F.lit(_UNCOMMITTED_POSITION)
        return committed.unionByName(self.uncommitted.withColumn("commit_index", after_all))


class _Counterpart(NamedTuple):
    """Query for the counterpart of a suspect, in SQL with the aliases `each` and `other`."""

    candidates: Callable[[_Candidates], DataFrame]
    condition: str
    found: str
    """Aggregate over the rows that match."""
    text: str
    values: tuple[str, ...]


_ENTRY: Final = "struct(other.origin, other.event, other.replica)"
_LATE: Final = "max(struct(other.invoked_us, other.replica, other.event, other.commit_index))"
_LATE_TEXT: Final = (
    "%d.%d got its stable response at %.3f ms, before %d.%d was invoked at %.3f ms, but is "
    "committed after it (at %d, after %d)"
)
_LATE_VALUES: Final = (
    *("replica", "event", "stable_us / 1000"),
    *("found.replica", "found.event", "found.invoked_us / 1000", "position", "found.commit_index"),
)
_EARLIER: Final = "max(struct(other.commit_index, other.event))"

_EXPLAINED_PARTS: Final = {
    "disagreement": _Counterpart(
        lambda each: each.ordered,
        "other.index = each.position",
        f"struct(min({_ENTRY}) as one, max({_ENTRY}) as other)",
        "two requests are committed at index %d: %d.%d at replica %d, and %d.%d at replica %d",
        (
            *("position", "found.one.origin", "found.one.event", "found.one.replica"),
            *("found.other.origin", "found.other.event", "found.other.replica"),
        ),
    ),
    "real_time": _Counterpart(
        lambda each: each.committed.where("strong"),
        "other.commit_index < each.position",
        _LATE,
        _LATE_TEXT,
        _LATE_VALUES,
    ),
    "session_real_time": _Counterpart(
        lambda each: each.committed,
        "other.session = each.session and other.commit_index < each.position",
        _LATE,
        _LATE_TEXT,
        _LATE_VALUES,
    ),
    "replica_order": _Counterpart(
        lambda each: each.weak,
        "other.replica = each.replica and other.event < each.event",
        _EARLIER,
        "%d.%d is committed at %d without the weak %d.%d before it, which its replica issued "
        "earlier",
        ("replica", "event", "position", "replica", "found.event"),
    ),
    "session_order": _Counterpart(
        lambda each: each.committed.where("weak"),
        "other.session = each.session and other.replica = each.replica "
        "and other.incarnation = each.incarnation "
        "and struct(other.invoked_us, other.event) < struct(each.invoked_us, each.event)",
        _EARLIER,
        "%d.%d is committed at %d, before the weak %d.%d at %d, which its session, %d, invoked "
        "earlier",
        (
            *("replica", "event", "position", "replica", "found.event", "found.commit_index"),
            "session",
        ),
    ),
}
"""Parts whose suspects have no detail, with the queries that yield it."""


def _explanations(
    suspects: DataFrame, parts: Iterable[str], candidates: _Candidates
) -> Iterator[DataFrame]:
    """Yield (number, part, position, detail) of the suspects of these parts."""
    columns = [F.col(f"each.{name}") for name in suspects.columns]
    for part in sorted(parts):
        query = _EXPLAINED_PARTS[part]
        each = F.broadcast(suspects.where(F.col("part") == part).alias("each"))
        others = query.candidates(candidates).alias("other")
        matched = others.join(each, F.expr(f"other.number = each.number and {query.condition}"))
        found = matched.groupBy(*columns).agg(F.expr(query.found).alias("found"))
        yield found.selectExpr(
            *("number", "part", "position"),
            f"format_string('{query.text}', {', '.join(query.values)}) as detail",
        )


_UNCOMMITTED_POSITION: Final = 2**62
"""Position of uncommitted requests: after all others."""
