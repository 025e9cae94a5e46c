"""Trace hash: a fingerprint of a sequence of inputs of any length."""

from creekdb.simulation.observation.trace import RECEIVE, TraceHash

INPUTS = 1500
"""Number of inputs; larger than one batch of the hash."""


def trace_of(contents: list[bytes]) -> TraceHash:
    trace = TraceHash()
    for at_us, content in enumerate(contents):
        trace.add(at_us, at_us, 0, RECEIVE, content, sender=1)
    return trace


def test_reading_the_hash_does_not_change_it() -> None:
    contents = [b"%d" % each for each in range(INPUTS)]
    whole, flushed = trace_of(contents), TraceHash()
    for at_us, content in enumerate(contents):
        flushed.add(at_us, at_us, 0, RECEIVE, content, sender=1)
        if at_us % 7 == 0:
            flushed.hexdigest()
    assert whole.input_count == flushed.input_count == INPUTS
    assert whole.hexdigest() == flushed.hexdigest() == whole.hexdigest()


def test_the_hash_depends_on_every_input() -> None:
    contents = [b"x"] * INPUTS
    hashes = {trace_of(contents).hexdigest(), trace_of(contents[:-1]).hexdigest()}
    for changed in (0, INPUTS // 2, INPUTS - 1):
        hashes.add(trace_of([*contents[:changed], b"y", *contents[changed + 1 :]]).hexdigest())
    assert len(hashes) == 5


def test_the_hash_depends_on_the_boundaries_of_contents() -> None:
    assert trace_of([b"ab", b"c"]).hexdigest() != trace_of([b"a", b"bc"]).hexdigest()
