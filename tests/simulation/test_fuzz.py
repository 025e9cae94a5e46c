"""The fuzzer on the real protocol, and the fuzzer itself."""

from itertools import islice

import pytest
from msgspec.structs import replace

from creekdb.checkers import Inconclusive
from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.probes import Probe
from creekdb.schemes import registry
from creekdb.simulation.fuzz.campaign import CampaignSummary, run_campaign, run_seed

SEEDS = 150
SHARDS = 10
"""So that several processes of pytest share them."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_seed_breaks_basic(shard: int) -> None:
    each = SEEDS // SHARDS
    for finding in run_campaign(range(shard * each, shard * each + each)):
        assert not finding.has_failed, f"seed {finding.seed}: {finding.describe()}"


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("scheme", ["smr", "bayou", "archie"])
def test_no_seed_breaks_what_creek_is_compared_with(scheme: str, shard: int) -> None:
    for finding in run_campaign(range(shard * 5, shard * 5 + 5), scheme):
        assert not finding.has_failed, f"seed {finding.seed}: {finding.describe()}"


def test_a_seed_always_gives_the_same_finding() -> None:
    assert run_seed(12) == run_seed(12)


def test_jobs_change_neither_the_findings_nor_their_order() -> None:
    seeds = range(40, 46)

    assert list(run_campaign(seeds, jobs=2)) == list(run_campaign(seeds, jobs=1))


def test_every_so_many_seeds_are_run_twice() -> None:
    findings = list(run_campaign(range(6), twice_every=3))

    again = [each.seed for each in findings if each.repeated_trace_hash is not None]
    assert again == [0, 3]
    assert all(each.is_repeatable for each in findings)


def test_a_campaign_can_be_left_early() -> None:
    findings = run_campaign(range(1000), jobs=2)

    assert [each.seed for each in islice(findings, 2)] == [0, 1]
    findings.close()  # type: ignore[attr-defined]


def test_a_run_that_never_rests_fails() -> None:
    finding = run_seed(1, events_max=1000)

    assert finding.has_failed
    assert not finding.is_quiescent
    assert "did not come to rest: stopped after 1000 events" in finding.describe()


def test_a_run_that_a_checker_cannot_judge_fails() -> None:
    """Else a recorder that lost its ears would please everybody."""
    finding = run_seed(1)
    assert not finding.has_failed
    blind = replace(finding, verdicts=(*finding.verdicts[1:], Inconclusive("promises", "no ears")))

    assert blind.has_failed
    assert blind.describe() == "unknown  promises: no ears"


def test_a_score_sums_up_and_hashes_in_order() -> None:
    findings = list(run_campaign(range(4)))
    forward, backward = CampaignSummary("basic"), CampaignSummary("basic")
    for finding in findings:
        forward.add(finding)
    for finding in reversed(findings):
        backward.add(finding)

    assert forward.seeds == 4
    assert forward.probes == backward.probes
    assert forward.probes[Probe.ROLLED_BACK] > 0
    assert forward.probes.keys() == set(registry.reachable_probes("basic")) < set(Probe)
    assert forward.trace_hash != backward.trace_hash


def test_mistakes_are_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownName, match="unknown scheme 'best'"):
        run_campaign(range(3), scheme="best")
    with pytest.raises(UnknownName, match="unknown scheme 'best'"):
        run_seed(1, scheme="best")
    with pytest.raises(BadValue, match="0 jobs"):
        run_campaign(range(3), jobs=0)
    with pytest.raises(BadValue, match="every 0 seeds"):
        run_campaign(range(3), twice_every=0)
