"""The numbers that a live replica runs the protocol with."""

from typing import Final

from creekdb.cluster.config import ServerConfig
from creekdb.cluster.digests import DIGEST_EVERY
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.settings import Settings

NOOP_TICKS: Final = 5
"""How long a weak request may stay unstable: what becomes stable together is handled in one turn of
the loop, so it should not be much."""
WINDOW: Final = 8
"""Instances of consensus under way at once: with fewer, each decides more, and costs as much."""
HANDED_OUT_MAX: Final = 1
"""Tasks that are handed out before the first of them is completed. They are run one by one, and
each is better chosen late: one that has to be executed before others may have come meanwhile."""
HANDED_OUT_TO_THREAD_MAX: Final = 64
"""The same, for a thread that should not wait for the loop between two of them."""


def settings_of(config: ServerConfig, configuration: Configuration) -> Settings:
    """`configuration`: the members that it begins with."""
    inline = config.execution == "inline"
    return Settings(
        members=configuration.numbers,
        checkpoint_every=config.checkpoint_every,
        record_orders=int(config.record_orders),
        digest_every=DIGEST_EVERY,
        drafts=1,
        noop_ticks=NOOP_TICKS,
        window=WINDOW,
        parallelism=HANDED_OUT_MAX if inline else HANDED_OUT_TO_THREAD_MAX,
        begin_anew=int(not config.fresh),
    ).changed_to(configuration)
