"""Restored state: the members and the outcomes of the old cluster are not part of it."""

from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY, Configuration
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Outcome
from creekdb.server.backup.restore import as_initial_state


def test_a_backup_after_a_membership_change_is_restored_without_its_members() -> None:
    members = Configuration(3, ((0, "10.0.0.1:7200"), (4, "10.0.0.5:7200")), (1, 2, 3))
    checkpoint = Checkpoint(
        instance=2,
        length=7,
        ids=Dots({0: (1, 5), 4: (1, 4)}),
        timestamp=0,
        state=((MEMBERSHIP_KEY, members), ("a", 1)),
        outcomes=((Dot(4, 1), Outcome(None)),),
    )
    initial = as_initial_state(checkpoint, members=(2, 3))
    assert initial.state == (("a", 1),)
    assert initial.outcomes == ()
    assert (initial.length, initial.ids) == (7, Dots({2: (1, 8)}))
