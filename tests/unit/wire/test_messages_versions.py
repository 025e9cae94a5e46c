"""Compatibility of releases: supported versions, and messages of newer ones (`docs/upgrade.md`)."""

import msgspec
import pytest

from creekdb.execution.base_state import EmptyBase
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.messages import Ballot, Cast, Heartbeat, Progress, Summary, Vote
from creekdb.protocol.request import Operation, Request
from creekdb.server.runtime.task_supervisor import TaskSupervisor
from creekdb.server.transport.peers import UNKNOWN_PEERS_MAX, PeerNetwork, PeerPorts
from creekdb.wire import messages
from creekdb.wire.reject_reason import RejectReason

OURS = messages.PeerHello(
    messages.WIRE_VERSION, "creek", 0, (0, 1), "kv", oldest_version=messages.OLDEST_WIRE_VERSION
)


def two_replicas() -> PeerNetwork:
    addresses = {0: ("127.0.0.1", 1), 1: ("127.0.0.1", 2)}
    return PeerNetwork(
        OURS,
        addresses,
        PeerPorts(
            receive=lambda message, sender: None,
            new_loader=lambda: StateLoader(EmptyBase(), with_digest=False),
            count_failure=lambda reason: None,
            spawn=TaskSupervisor(lambda error: None).spawn,
            log=lambda replica, line: None,
            on_hello=lambda hello: None,
            on_duplicate=lambda message: None,
        ),
    )


def rejection_reason(version: int, oldest: int) -> str | None:
    """Return the reason to reject a peer with these versions, or None."""
    peers = two_replicas()
    theirs = messages.PeerHello(version, "creek", 1, (0, 1), "kv", oldest_version=oldest)
    problem = peers.check_hello(theirs)
    return None if problem is None else problem.reason


def test_a_later_release_that_supports_our_version_is_accepted() -> None:
    later = messages.WIRE_VERSION + 1

    assert messages.common_version(later, messages.WIRE_VERSION) == messages.WIRE_VERSION
    assert rejection_reason(later, messages.WIRE_VERSION) is None
    assert rejection_reason(later, later) == RejectReason.VERSION


def test_a_release_with_an_unsupported_version_is_rejected() -> None:
    older = messages.OLDEST_WIRE_VERSION - 1

    assert messages.common_version(older, older) is None
    assert rejection_reason(older, older) == RejectReason.VERSION


def test_a_peer_without_an_oldest_version_supports_only_one() -> None:
    assert rejection_reason(messages.WIRE_VERSION, 0) is None
    assert rejection_reason(messages.WIRE_VERSION + 1, 0) == RejectReason.VERSION


MESSAGES = (
    OURS,
    messages.StateDigests(((64, 1),)),
    Heartbeat(Ballot(1, 0), None, (0, 1)),
    Progress(3, 2),
    Summary(Dots({0: (1, 3)})),
    Vote(Ballot(1, 0), 4),
    Cast((Request(1, Dot(1, 1), Operation("put", ("a", 1)), False),)),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_field_that_a_later_release_appends_is_ignored(message: object) -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
    longer = msgspec.msgpack.encode([*fields, "something new"])
    decode = (
        messages.decode_peer_hello
        if isinstance(message, messages.PeerHello)
        else messages.decode_peer_message
    )

    assert decode(longer) == message


def test_a_hello_of_the_previous_release_gets_defaults_for_new_fields() -> None:
    short = msgspec.msgpack.encode([1, messages.WIRE_VERSION, "creek", 1, [0, 1], "kv"])

    hello = messages.decode_peer_hello(short)
    assert (hello.client_address, hello.epoch, hello.peer_address, hello.oldest_version) == (
        "",
        0,
        "",
        0,
    )


def test_only_a_few_replicas_outside_the_configuration_are_dialled() -> None:
    peers = two_replicas()
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
