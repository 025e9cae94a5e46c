"""Collector for the effects of one replica."""

from creekdb.protocol.checkpoint.stream import (
    EncodedCheckpoint,
    StreamedCheckpoint,
    StreamedSnapshot,
)
from creekdb.protocol.effects import (
    DataLost,
    Digest,
    Effects,
    Event,
    ReportedChange,
    Response,
    Send,
    Task,
)
from creekdb.protocol.messages import Message, Record

NO_EFFECTS = Effects()


class Outbox:
    """Effects that the driver has not taken yet."""

    def __init__(self) -> None:
        self.data_lost: DataLost | None = None
        self.records: list[Record] = []
        self.sends: list[Send] = []
        self.responses: list[Response] = []
        self.tasks: list[Task] = []
        self.events: list[Event] = []
        self.digests: list[Digest] = []
        self.checkpoints: list[StreamedCheckpoint | EncodedCheckpoint] = []
        self.snapshots: list[StreamedSnapshot] = []
        self.wake_at: int | None = None
        self.changes: list[ReportedChange] = []

    def send(self, to: tuple[int, ...], message: Message) -> None:
        """Send a message to these replicas, if there are any."""
        if to:
            self.sends.append(Send(to, message))

    def take_tasks(self) -> tuple[Task, ...]:
        """Take only the tasks."""
        tasks, self.tasks = tuple(self.tasks), []
        return tasks

    def take(self) -> Effects:
        if not (
            self.records
            or self.sends
            or self.responses
            or self.tasks
            or self.events
            or self.digests
            or self.checkpoints
            or self.snapshots
            or self.changes
            or self.data_lost is not None
            or self.wake_at is not None
        ):
            return NO_EFFECTS
        effects = Effects(
            self.data_lost,
            tuple(self.records),
            tuple(self.sends),
            tuple(self.responses),
            tuple(self.tasks),
            tuple(self.events),
            tuple(self.digests),
            tuple(self.checkpoints),
            tuple(self.snapshots),
            self.wake_at,
            tuple(self.changes),
        )
        self.records, self.sends, self.responses = [], [], []
        self.tasks, self.events, self.digests = [], [], []
        if self.checkpoints or self.snapshots:
            self.checkpoints, self.snapshots = [], []
        if self.changes:
            self.changes = []
        self.data_lost = None
        self.wake_at = None
        return effects
