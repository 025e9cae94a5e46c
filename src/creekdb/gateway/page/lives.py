"""What becomes of the operations that a replica has seen lately: how often each was executed here,
and of those that were called here, which answers left and when."""

import time
from typing import Any, Final

from creekdb.protocol.effects import Response, Task, Work
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Operation, Outcome, Request
from creekdb.wire.deduplication import INTERNAL, described

LIVES_MAX: Final = 1024
ANSWERS_MAX: Final = 8
"""Of one call: the first, and the last ones."""
TEXT_MAX: Final = 80


class Life:
    __slots__ = ("answers", "called_at", "executions", "started")

    def __init__(self) -> None:
        self.executions = 0
        self.started: float | None = None
        """When it was called, if that was here, to count from."""
        self.called_at = 0
        """The same, by the clock on the wall, in milliseconds."""
        self.answers: list[dict[str, Any]] = []


class Lives:
    """An `Onlooker`. The oldest are forgotten."""

    def __init__(self) -> None:
        self._lives: dict[Dot, Life] = {}

    def invoked(self, id: Dot) -> None:
        life = self._of(id)
        life.started, life.called_at = time.perf_counter(), time.time_ns() // 1_000_000

    def answered(self, response: Response) -> None:
        life = self._lives.get(response.id)
        if life is None or life.started is None:
            return
        answer = {
            "kind": response.kind.value,
            "ms": round((time.perf_counter() - life.started) * 1000, 2),
            "says": told(response.outcome),
            "raised": response.outcome.error is not None,
            "changed": response.changed,
        }
        if len(life.answers) == ANSWERS_MAX:
            del life.answers[1]
        life.answers.append(answer)

    def executing(self, tasks: tuple[Task, ...]) -> None:
        for task in tasks:
            if task.work is Work.EXECUTE:
                self._of(task.request.id).executions += 1

    def entry(self, request: Request) -> dict[str, Any]:
        """A request as a page shows it."""
        operation = request.operation
        life = self._lives.get(request.id)
        shown: dict[str, Any] = {
            "id": str(request.id),
            "says": shortened(described(operation)),
            "strong": request.strong,
            "own": is_own(operation),
            "runs": 0 if life is None else life.executions,
        }
        if life is not None and life.started is not None:
            shown |= {"called_at": life.called_at, "answers": life.answers}
        return shown

    def _of(self, id: Dot) -> Life:
        life = self._lives.get(id)
        if life is None:
            life = self._lives[id] = Life()
            if len(self._lives) > LIVES_MAX:
                del self._lives[next(iter(self._lives))]
        return life


def is_own(operation: Operation) -> bool:
    """Is it the cluster's, and not a client's?"""
    return operation == NOOP or (
        operation.name.startswith(INTERNAL) and described(operation).startswith(INTERNAL)
    )


def told(outcome: Outcome) -> str:
    return shortened(repr(outcome.value) if outcome.error is None else outcome.error)


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
