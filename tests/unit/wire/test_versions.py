"""Releases side by side: which versions talk to each other, and what an old one makes of a new
one's messages (`docs/upgrade.md`)."""

import msgspec
import pytest

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Ballot, Cast, Heartbeat, Progress, Summary, Vote
from creekdb.protocol.request import Operation, Request
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peers import UNKNOWN_PEERS_MAX, PeerNetwork
from creekdb.wire import messages

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)


def two() -> PeerNetwork:
    addresses = {0: ("127.0.0.1", 1), 1: ("127.0.0.1", 2)}
    return PeerNetwork(
        OURS,
        addresses,
        lambda message, sender: None,
        lambda: StateLoader(EmptyBase(), digested=False),
        lambda reason: None,
        TaskSupervisor(lambda error: None).spawn,
    )


def told(version: int, oldest: int) -> str | None:
    """Why a peer that speaks these versions is left alone."""
    peers = two()
    theirs = messages.PeerHello(version, "creek", 1, (0, 1), "kv", oldest_version=oldest)
    problem = peers.check_hello(theirs)
    return None if problem is None else problem.reason


def test_a_later_release_that_still_speaks_our_version_is_talked_to() -> None:
    later = messages.WIRE_VERSION + 1

    assert messages.common_version(later, messages.WIRE_VERSION) == messages.WIRE_VERSION
    assert told(later, messages.WIRE_VERSION) is None
    assert told(later, later) == "version"


def test_a_release_whose_version_we_speak_no_more_is_left_alone() -> None:
    before = messages.OLDEST_WIRE_VERSION - 1

    assert messages.common_version(before, before) is None
    assert told(before, before) == "version"


def test_one_who_does_not_tell_its_oldest_version_speaks_only_one() -> None:
    assert told(messages.WIRE_VERSION, 0) is None
    assert told(messages.WIRE_VERSION + 1, 0) == "version"


SAID = (
    OURS,
    messages.StateDigests(((64, 1),)),
    Heartbeat(Ballot(1, 0), None, (0, 1)),
    Progress(3, 2),
    Summary(Dots({0: (1, 3)})),
    Vote(Ballot(1, 0), 4),
    Cast((Request(1, Dot(1, 1), Operation("put", ("a", 1)), False),)),
)


@pytest.mark.parametrize("message", SAID, ids=lambda message: type(message).__name__)
def test_a_field_that_a_later_release_adds_at_the_end_is_left_out(message: object) -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    longer = msgspec.msgpack.encode([*fields, "something new"])
    read = (
        messages.decode_peer_hello
        if isinstance(message, messages.PeerHello)
        else messages.decode_peer_message
    )

    assert read(longer) == message


def test_a_hello_of_the_release_before_has_defaults_for_what_is_new() -> None:
    short = msgspec.msgpack.encode([1, messages.WIRE_VERSION, "creek", 1, [0, 1], "kv"])

    hello = messages.decode_peer_hello(short)
    assert (hello.client_address, hello.epoch, hello.peer_address, hello.oldest_version) == (
        "",
        0,
        "",
        0,
    )


def test_of_those_who_say_that_they_came_later_only_a_few_are_dialled() -> None:
    peers = two()
    for number in range(2, 100):
        hello = messages.PeerHello(
            1, "creek", number, (0, 1), "kv", f"127.0.0.1:{number}", 7, "a:1"
        )
        assert peers.check_hello(hello) is None
        peers.accept_hello(hello)

    assert len(peers.links) == 1 + UNKNOWN_PEERS_MAX
    assert len(peers.client_addresses) == 1 + UNKNOWN_PEERS_MAX
    peers.reconfigure(Configuration(8, ((0, "a:1"), (1, "b:1"), (99, "c:1"))))
    assert 99 in peers.links
