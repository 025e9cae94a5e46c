"""A client that says so is told the answer that it waits for, and nothing else."""

from pathlib import Path

from creekdb.wire import messages
from tests.cluster.house import house, run
from tests.cluster.talking import dialled


def test_of_a_brief_call_only_the_answer_is_told_that_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            line.say(messages.CallRequest(1, "put", ("a", 1), is_single_response=True))
            assert await line.hear() == messages.CallResponse(1, "tentative")
            desk = cluster.servers[0].dispatcher
            assert (desk.open_calls(), desk.in_flight) == ((), 0)
            line.say(messages.CallRequest(2, "put", ("a", 2), strong=True, is_single_response=True))
            assert await line.hear() == messages.CallResponse(2, "stable", 1)
            line.say(messages.CallRequest(3, "get", ("a",), is_single_response=True))
            assert await line.hear() == messages.CallResponse(3, "tentative", 2)
            # The strong one came after the first: how that ended is settled, and was not told.
            assert (desk.open_calls(), desk.in_flight) == ((), 0)
            line.say(messages.StatusRequest(4))
            assert isinstance(await line.hear(), messages.StatusResponse)

    run(story())


def test_what_was_asked_for_briefly_can_be_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            for _ in range(2):
                line.say(messages.CallRequest(1, "increment", ("a",), is_single_response=True))
                assert await line.hear() == messages.CallResponse(1, "tentative", 1)

    run(story())
