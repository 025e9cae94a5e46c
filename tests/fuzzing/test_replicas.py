"""Damaged messages of a member: a replica processes or rejects them, and never fails."""

from random import Random

import pytest

from tests.fuzzing.replicas import check_replica


@pytest.mark.parametrize("seed", range(20))
def test_a_replica_survives_damaged_messages(seed: int) -> None:
    check_replica(Random(seed))
