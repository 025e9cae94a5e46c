"""Relational form of the checker `convergence`, with digests in place of orders and states.

Members must end a run with nothing tentative, with equal committed orders and equal states, and
with every operation that got a response. Suspects are rows of (number, part, position, detail),
and their positions rank them. Digests show that members differ, but not where. Orders
that begin at different positions, as after an installed checkpoint, have different digests and are
not compared; `prefix_order` compares them position by position.

Requests and reads that replicas observed without a response to their client are not in the tables.
Only the checker itself detects their loss, in runs with recorded events.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

WITNESSES_MAX: Final = 5
DIGEST_LENGTH: Final = 12
"""Characters of a digest in a counterexample."""


def final_state_suspects(numbered: DataFrame, final_states: DataFrame) -> DataFrame:
    """Return the first difference of members, in the order in which the checker looks for them."""
    ends = (
        _members(numbered, final_states)
        .withColumn("length", F.expr("first + committed"))
        .groupBy("number")
        .agg(
            F.sort_array(
                F.collect_list(
                    F.struct(
                        *("replica", "first", "length", "tentative", "order_digest", "state_digest")
                    )
                )
            ).alias("members")
        )
    )
    lengths = "array_max(transform(members, each -> each.length))"
    checks = (
        (
            "unsettled is not null or members is null",
            "'liveness: the run did not become quiescent'",
            _witnesses("members", "has %d committed, %d tentative", "length", "tentative"),
        ),
        (
            "exists(members, each -> each.tentative > 0)",
            "format_string('liveness: %d requests never stabilised', "
            "filter(members, each -> each.tentative > 0)[0].tentative)",
            _witnesses(
                "slice(filter(members, each -> each.tentative > 0), 1, 1)",
                "has %d on tentative",
                "tentative",
            ),
        ),
        (
            f"exists(members, each -> each.length != {lengths})",
            f"format_string('%d requests are committed, but not at every replica', {lengths})",
            _witnesses("members", "has %d on committed", "length"),
        ),
        (
            _differs("order_digest", "first"),
            "'the committed orders differ'",
            _digest_witnesses("order", "first"),
        ),
        (
            _differs("state_digest"),
            "'the states differ'",
            _digest_witnesses("state"),
        ),
    )
    cases = (
        f"when {condition} then struct(cast({rank} as bigint) as position, "
        f"concat_ws('\\n', {message}, {witnesses}) as detail)"
        for rank, (condition, message, witnesses) in enumerate(checks)
    )
    return (
        numbered.select("number", "unsettled")
        .join(ends, "number", "left")
        .selectExpr("number", f"case {' '.join(cases)} end as found")
        .where("found is not null")
        .selectExpr("number", "'final_states' as part", "found.position", "found.detail")
    )


def _members(numbered: DataFrame, final_states: DataFrame) -> DataFrame:
    return final_states.join(F.broadcast(numbered.select("run", "number")), "run")


def _differs(digest: str, *equal: str) -> str:
    """Return a condition: two members differ in `digest`, but not in the columns `equal`."""
    same = "".join(f" and each.{name} = other.{name}" for name in equal)
    return (
        f"exists(members, each -> exists(members, other -> each.{digest} != other.{digest}{same}))"
    )


def _digest_witnesses(what: str, *equal: str) -> str:
    """Return witnesses for the first pair of members that differ."""
    digest = f"{what}_digest"
    same = "".join(f" and each.{name} = other.{name}" for name in equal)
    reference = (
        f"filter(members, each -> exists(members, other -> each.{digest} != other.{digest}{same}))"
    )
    observation = f"has the {what} with digest %s"
    return _witnesses(reference, observation, f"left(each.{digest}, {DIGEST_LENGTH})")


def _witnesses(members: str, observation: str, *values: str) -> str:
    """Return a line for each of the first members, as `Witness.describe` formats it."""
    columns = ", ".join(each if "(" in each else f"each.{each}" for each in values)
    text = f"{'at the end':>14}  replica %d: {observation}"
    line = f"each -> format_string('{text}', each.replica, {columns})"
    return f"transform(slice({members}, 1, {WITNESSES_MAX}), {line})"


def lost_responses(numbered: DataFrame, invoked: DataFrame, final_states: DataFrame) -> DataFrame:
    """Return operations that got a response and were then lost.

    Only a replica that never restarts may lose requests that no other replica has, and none with a
    stable response. If responses did not wait for the disk, a crash may lose a request that has
    only tentative ones. Pipelines simulate no such run; of imported runs, only the checker itself
    determines whether the request was on disk.
    """
    members = _members(numbered, final_states)
    present = members.selectExpr("number", "replica", "true as is_member")
    lost = invoked.where(
        "event >= 0 and commit_index is null "
        "and coalesce(stable_us, final_us, tentative_us) is not null"
    ).join(present, ["number", "replica"], "left")
    text = "%d.%d got a response and was then lost: it is not on committed"
    return lost.where(
        "stable_us is not null or is_member and (final_us is not null or is_traced)"
    ).selectExpr(
        "number",
        "'lost_response' as part",
        f"{_LOST_RESPONSE_RANK} + invoked_us as position",
        f"format_string('{text}', replica, event) as detail",
    )


_LOST_RESPONSE_RANK: Final = 1000
"""Rank of lost responses: after the differences between members."""
