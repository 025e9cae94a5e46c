"""What is executed next: the earliest request first, as many at once as there are cores.

Rules kept here:
- a request runs only when the one before it in its session has been executed, unless the order
  has it the other way round by now;
- one that was executed in vain `LOSSES_MAX` times runs when everything before it is done, so that
  nothing but a newcomer can make it lose again.

It chooses; running, validating and installing is for others.
"""

from itertools import islice

from sortedcontainers import SortedList

from creek.execution.chains import Entry, Phase, Position

LOSSES_MAX = 8
LOOK_AHEAD = 64
"""How many of the earliest requests are considered, when some of them must wait."""


class Scheduler:
    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._positions: SortedList[Position] = SortedList()
        self._waiting: dict[Position, Entry] = {}
        self.running: dict[int, Entry] = {}
        """By the number of the task."""
        self._void: set[int] = set()
        """Tasks that are under way for nothing."""

    def add(self, entry: Entry) -> None:
        assert entry.phase is Phase.WAITING
        self._positions.add(entry.position)
        self._waiting[entry.position] = entry

    def remove(self, entry: Entry) -> bool:
        """Before it moves; False when it was not waiting."""
        if self._waiting.get(entry.position) is not entry:
            return False
        del self._waiting[entry.position]
        self._positions.remove(entry.position)
        return True

    def start(self, number: int) -> Entry | None:
        """The next entry to run, as task `number`; None when there is none or no core is free."""
        if not self._waiting or len(self.running) + len(self._void) >= self._cores:
            return None
        for position in islice(self._positions, LOOK_AHEAD):
            entry = self._waiting[position]
            if self._may_run(entry):
                self.remove(entry)
                entry.phase = Phase.RUNNING
                self.running[number] = entry
                return entry
        return None

    def finish(self, number: int) -> Entry | None:
        """The entry of the task; None when it was started before the last `clear`."""
        self._void.discard(number)
        return self.running.pop(number, None)

    def idle(self) -> bool:
        return not self._waiting and not self.running

    def clear(self) -> None:
        self._positions.clear()
        self._waiting.clear()
        self._void.update(self.running)
        self.running.clear()

    def _may_run(self, entry: Entry) -> bool:
        after = entry.after
        if after is not None and not after.is_executed and after.position < entry.position:
            return False
        return entry.losses < LOSSES_MAX or self._is_first(entry)

    def _is_first(self, entry: Entry) -> bool:
        return self._positions[0] == entry.position and all(
            entry.position < running.position for running in self.running.values()
        )
