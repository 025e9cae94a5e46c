"""Replicas that receive damaged messages from a member."""

from random import Random
from typing import Final

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.protocol.messages import decode_message
from tests.fuzzing import mutations, samples
from tests.unit.schemes.random_workload import busy_harness

MESSAGES: Final = 40
"""Number of damaged messages that one replica receives."""


def check_replica(random: Random) -> None:
    """Deliver damaged messages to a busy replica. It must process or reject each of them."""
    harness = busy_harness(random.randrange(50), steps=120)
    sent = [samples.encode(message) for _, _, message in harness.network]
    sent += map(samples.encode, samples.PROTOCOL_MESSAGES)
    for _ in range(MESSAGES):
        if random.random() < 0.7:
            plain = msgspec.msgpack.decode(random.choice(sent))
            data = samples.encode(mutations.random_variant(random, plain))
        else:
            data = mutations.random_damage(random, sent)
        try:
            message = decode_message(data)
        except MalformedMessage:
            continue
        receiver, sender = random.sample(range(3), 2)
        harness.receive(receiver, sender, message)
