"""The trace hash: one fingerprint for one sequence of inputs, however long."""

from creekdb.simulation.observation.trace import RECEIVE, TraceHash

INPUTS = 1500
"""More than are hashed at once."""


def trace_of(contents: list[bytes]) -> TraceHash:
    trace = TraceHash()
    for at_us, content in enumerate(contents):
        trace.add(at_us, at_us, 0, RECEIVE, content, sender=1)
    return trace


def test_equal_inputs_have_one_hash_however_often_it_is_asked_for() -> None:
    contents = [b"%d" % each for each in range(INPUTS)]
    whole, in_parts = trace_of(contents), TraceHash()
    for at_us, content in enumerate(contents):
        in_parts.add(at_us, at_us, 0, RECEIVE, content, sender=1)
        if at_us % 7 == 0:
            in_parts.hexdigest()
    assert whole.input_count == in_parts.input_count == INPUTS
    assert whole.hexdigest() == in_parts.hexdigest() == whole.hexdigest()


def test_every_input_counts() -> None:
    contents = [b"x"] * INPUTS
    hashes = {trace_of(contents).hexdigest(), trace_of(contents[:-1]).hexdigest()}
    for changed in (0, INPUTS // 2, INPUTS - 1):
        hashes.add(trace_of([*contents[:changed], b"y", *contents[changed + 1 :]]).hexdigest())
    assert len(hashes) == 5


def test_where_one_content_ends_and_the_next_begins_counts() -> None:
    assert trace_of([b"ab", b"c"]).hexdigest() != trace_of([b"a", b"bc"]).hexdigest()
