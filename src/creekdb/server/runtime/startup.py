"""Startup of a replica: protocol settings, progress reports, and the failure of a lost disk."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, assert_never

from creekdb.errors import StorageFault
from creekdb.protocol.effects import DataLossKind, DataLost
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.settings import Settings
from creekdb.server.observability.divergence import DIGEST_INTERVAL_REQUESTS
from creekdb.server.runtime.config import ServerConfig
from creekdb.wire.event_log import EventLog, EventName

NOOP_TICKS: Final = 5
"""Upper bound for the time a weak request stays unstable, in ticks. One turn of the loop handles
all requests that become stable together, so there should be few of them."""
CONSENSUS_WINDOW: Final = 8
"""Concurrent consensus instances. With fewer, each instance decides more at the same cost."""
INLINE_TASKS_MAX: Final = 1
"""Tasks that are handed out before the first of them completes. Tasks run one by one, and a late
choice is better: a request that must be executed earlier may have arrived meanwhile."""
THREAD_TASKS_MAX: Final = 64
"""As `INLINE_TASKS_MAX`, for a thread, which should not wait for the loop between two tasks."""


def protocol_settings(config: ServerConfig, configuration: Configuration) -> Settings:
    """Return the settings. `configuration` holds the members that the replica starts with."""
    inline = config.execution == "inline"
    return Settings(
        members=configuration.replica_ids,
        checkpoint_every=config.checkpoint_every,
        record_orders=int(config.record_orders),
        digest_every=DIGEST_INTERVAL_REQUESTS,
        drafts=1,
        noop_ticks=NOOP_TICKS,
        window=CONSENSUS_WINDOW,
        parallelism=INLINE_TASKS_MAX if inline else THREAD_TASKS_MAX,
        begin_anew=int(not config.fresh),
    ).with_configuration(configuration)


REPORT_AFTER_S: Final = 2.0
"""Duration of a wait or an activity before it is logged, and between two logs, in seconds."""


@contextmanager
def log_if_slow(activity: str, events: EventLog, report_after_s: float) -> Iterator[None]:
    """Log an activity that blocks the loop for long. A thread of its own does it."""
    finished = threading.Event()

    def report() -> None:
        seconds = report_after_s
        while not finished.wait(report_after_s):
            events.info(EventName.REPLICA_BUSY, f"{activity}, for {seconds:.0f} s so far")
            seconds += report_after_s

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def data_loss_fault(lost: DataLost, config: ServerConfig) -> StorageFault:
    """Return the failure of a replica whose disk has lost data, with a remedy."""
    match lost.kind:
        case DataLossKind.MEMBERS:
            return StorageFault(
                f"data lost: this replica admitted members that {config.data} does not contain. "
                "Records that counted as durable are gone, and it may make no more promises. "
                "Replace it with a new replica: "
                f"'creek member replace {config.replica} HOST:PORT --data DIR'"
            )
        case DataLossKind.REQUESTS:
            return StorageFault(
                f"data lost: peers hold requests of this replica that {config.data} does not "
                "contain. Records that counted as durable are gone, or the directory is an older "
                f"copy. Move {config.data} away, and start this replica as one that lost its disk"
            )
        case _:
            assert_never(lost.kind)
