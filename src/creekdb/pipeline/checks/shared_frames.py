"""Frames with several consumers, computed once.

Executors keep the rows in memory, or on disk if memory is short. If an executor is lost, Spark
computes its rows again.
"""

from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame


class SharedFrames:
    """Persisted frames; leaving the context releases them."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an error, the session may be gone, and its frames with it.
        with nullcontext() if error is None else suppress(Exception):
            for frame in self._frames:
                frame.unpersist()

    def share(self, frame: DataFrame) -> DataFrame:
        """Return the frame, of which later consumers read the stored rows."""
        self._frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._frames[-1]
