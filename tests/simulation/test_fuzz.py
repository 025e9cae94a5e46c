"""Fuzzing of the real protocol, and tests of the fuzzer itself."""

from itertools import islice

import pytest
from msgspec.structs import replace

from creekdb.checkers import Inconclusive
from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.probes import Probe
from creekdb.schemes import registry
from creekdb.simulation.fuzz.campaign import CampaignSummary, Overrides, run_campaign, run_seed

SEEDS = 100
SHARDS = 10
"""Number of tests that share the seeds, so that they run in parallel."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_fails_with_basic(shard: int) -> None:
    each = SEEDS // SHARDS
    for result in run_campaign(range(shard * each, shard * each + each)):
        assert not result.has_failed, f"seed {result.seed}: {result.describe()}"


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
def test_no_seed_fails_with_the_compared_schemes(scheme: str, shard: int) -> None:
    for result in run_campaign(range(shard * 3, shard * 3 + 3), scheme):
        assert not result.has_failed, f"seed {result.seed}: {result.describe()}"


@pytest.mark.parametrize("shard", range(2))
def test_no_seed_fails_with_sql(shard: int) -> None:
    overrides = Overrides(datatype="sql")
    for result in run_campaign(range(shard * 5, shard * 5 + 5), "creek", overrides=overrides):
        assert not result.has_failed, f"seed {result.seed}: {result.describe()}"


def test_a_seed_always_has_the_same_result() -> None:
    assert run_seed(12) == run_seed(12)


def test_results_and_their_order_are_independent_of_the_jobs() -> None:
    seeds = range(40, 46)

    assert list(run_campaign(seeds, jobs=2)) == list(run_campaign(seeds, jobs=1))


def test_seeds_are_repeated_at_the_configured_interval() -> None:
    results = list(run_campaign(range(6), repeat_every=3))

    repeated = [each.seed for each in results if each.repeated_trace_hash is not None]
    assert repeated == [0, 3]
    assert all(each.is_repeatable for each in results)


def test_a_campaign_can_be_closed_early() -> None:
    results = run_campaign(range(1000), jobs=2)

    assert [each.seed for each in islice(results, 2)] == [0, 1]
    results.close()  # type: ignore[attr-defined]


def test_a_run_that_does_not_quiesce_fails() -> None:
    result = run_seed(1, events_max=1000)

    assert result.has_failed
    assert not result.is_quiescent
    assert "did not quiesce: stopped after 1000 events" in result.describe()


def test_a_run_with_an_inconclusive_checker_fails() -> None:
    """Otherwise a recorder that records nothing would pass every checker."""
    result = run_seed(1)
    assert not result.has_failed
    inconclusive = replace(
        result, verdicts=(*result.verdicts[1:], Inconclusive("promises", "no events"))
    )

    assert inconclusive.has_failed
    assert inconclusive.describe() == "unknown  promises: no events"


def test_a_campaign_summary_adds_up_and_hashes_in_order() -> None:
    results = list(run_campaign(range(4)))
    forward, backward = CampaignSummary("basic"), CampaignSummary("basic")
    for result in results:
        forward.add(result)
    for result in reversed(results):
        backward.add(result)

    assert forward.seeds == 4
    assert forward.probes == backward.probes
    assert forward.probes[Probe.ROLLED_BACK] > 0
    assert forward.probes.keys() == set(registry.reachable_probes("basic")) < set(Probe)
    assert forward.trace_hash != backward.trace_hash


def test_invalid_arguments_are_rejected_before_the_first_run() -> None:
    with pytest.raises(UnknownName, match="unknown scheme 'best'"):
        run_campaign(range(3), scheme="best")
    with pytest.raises(UnknownName, match="unknown scheme 'best'"):
        run_seed(1, scheme="best")
    with pytest.raises(BadValue, match="jobs is 0"):
        run_campaign(range(3), jobs=0)
    with pytest.raises(BadValue, match="repeat_every is 0"):
        run_campaign(range(3), repeat_every=0)
