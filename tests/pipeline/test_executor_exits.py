"""Cancellation of jobs whose executors exit again and again, without Spark."""

import threading

import pytest

from creekdb.errors import UsageError
from creekdb.pipeline.spark.driver import EXECUTOR_EXITS_MAX, cancel_if_executors_exit

TIMEOUT_S = 30.0
EXITS = [f"executors on a exit at once: {number}" for number in range(EXECUTOR_EXITS_MAX)]


class RunningJob:
    """Job that only a cancellation ends."""

    def __init__(self) -> None:
        self._cancelled = threading.Semaphore(0)

    def cancel(self) -> None:
        self._cancelled.release()

    def run(self) -> None:
        if not self._cancelled.acquire(timeout=TIMEOUT_S):
            raise TimeoutError
        raise RuntimeError("the job was cancelled")


def test_every_job_is_cancelled_while_executors_exit() -> None:
    job = RunningJob()

    @cancel_if_executors_exit(lambda: EXITS, job.cancel, grace_s=0.0, interval_s=0.001)
    def run_two_jobs() -> None:
        with pytest.raises(RuntimeError):
            job.run()
        job.run()  # submitted after the first cancellation

    with pytest.raises(UsageError, match=f"{EXITS[-1]}; see the logs of its worker"):
        run_two_jobs()


def test_an_error_is_raised_as_it_is_while_executors_run() -> None:
    @cancel_if_executors_exit(lambda: EXITS[1:], RunningJob().cancel, interval_s=0.001)
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
