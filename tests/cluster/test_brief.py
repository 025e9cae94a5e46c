"""A client that says so is told the answer that it waits for, and nothing else."""

from pathlib import Path

from creekdb.wire import messages
from tests.cluster.house import house, run
from tests.cluster.talking import dialled


def test_of_a_brief_call_only_the_answer_is_told_that_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            line.say(messages.Call(1, "put", ("a", 1), brief=True))
            assert await line.hear() == messages.Answer(1, "tentative")
            desk = cluster.servers[0].desk
            assert (desk.asked(), desk.under_way) == ((), 0)
            line.say(messages.Call(2, "put", ("a", 2), strong=True, brief=True))
            assert await line.hear() == messages.Answer(2, "stable", 1)
            line.say(messages.Call(3, "get", ("a",), brief=True))
            assert await line.hear() == messages.Answer(3, "tentative", 2)
            # The strong one came after the first: how that ended is settled, and was not told.
            assert (desk.asked(), desk.under_way) == ((), 0)
            line.say(messages.StatusRequest(4))
            assert isinstance(await line.hear(), messages.Status)

    run(story())


def test_what_was_asked_for_briefly_can_be_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, replicas=1) as cluster, dialled(cluster) as line:
            for _ in range(2):
                line.say(messages.Call(1, "increment", ("a",), brief=True))
                assert await line.hear() == messages.Answer(1, "tentative", 1)

    run(story())
