"""Mutants of the rule "durable before sent" (`driver/release.py`).

Some parts of the rule have no mutant here, and unit tests cover them
(`tests/unit/driver/test_release.py`). A proposal that leaves before the requests of its batch only
delays the votes. A response that skips records after a decision is nearly always held behind the
cast of its request.
"""

from tests.mutants.catalogue import Edit, Mutant

RELEASE = "driver/release.py"

_LAST_STEP = """\
        if send:
            self._held.append(_HeldOutput(self.end_position, send, ()))
        return early_send, early_respond
"""


def _sends_early(message: str) -> Edit:
    """Return an edit after which messages of one type do not wait for any record."""
    return Edit(
        RELEASE,
        _LAST_STEP,
        f"""\
        leaving = [each for each in send if type(each.message).__name__ == "{message}"]
        send = [each for each in send if type(each.message).__name__ != "{message}"]
        if send:
            self._held.append(_HeldOutput(self.end_position, send, ()))
        return [*early_send, *leaving], early_respond
""",
    )


MUTANTS: tuple[Mutant, ...] = (
    # --- rule 1: order -----------------------------------------------------------------------
    Mutant(
        "vote_leaves_before_its_record",
        "rule 1: an accepted value is durable before the vote for it leaves",
        300,
        (_sends_early("Vote"),),
    ),
    Mutant(
        "promise_leaves_before_its_record",
        "rule 1: a promise is durable before it leaves",
        300,
        (_sends_early("Promise"),),
    ),
    Mutant(
        "cast_leaves_before_its_request",
        "rule 1: a request is durable before its cast leaves",
        300,
        (_sends_early("Cast"),),
    ),
    Mutant(
        "progress_leaves_before_its_decision",
        "rule 1: a decision is durable before the progress that reports it leaves",
        300,
        (_sends_early("Progress"),),
    ),
    Mutant(
        "response_leaves_before_its_request",
        "rule 1: a request is durable before its first response leaves",
        300,
        (
            Edit(
                RELEASE,
                "if not self._held and self._response_position <= durable:",
                "if not self._held:",
            ),
        ),
    ),
    Mutant(
        "output_leaves_one_record_early",
        "rule 1: an output leaves once all records before it are durable",
        300,
        (
            Edit(
                RELEASE,
                "while held and held[0].position <= durable:",
                "while held and held[0].position <= durable + 1:",
            ),
        ),
    ),
    Mutant(
        "response_overtakes_a_held_one",
        "rule 1: no response overtakes one that is held",
        300,
        (
            Edit(
                RELEASE,
                "if not self._held and self.end_position <= durable:",
                "if self.end_position <= durable:",
            ),
            Edit(
                RELEASE,
                "if not self._held and self._response_position <= durable:",
                "if self._response_position <= durable:",
            ),
        ),
    ),
    # --- rule 2: proposals -------------------------------------------------------------------
    Mutant(
        "proposal_leaves_before_its_ballot",
        "rule 2: a ballot is durable before a proposal in it leaves",
        300,
        (
            Edit(
                RELEASE,
                "return has_proposal and not has_cast and self._ballot_position <= durable",
                "return has_proposal and not has_cast",
            ),
        ),
        "bayou",  # the primary is a majority, and leads before its ballot is durable
    ),
    Mutant(
        "proposal_leaves_before_its_request",
        "rule 2: a request of this replica is durable before a proposal that names it leaves",
        300,
        (
            Edit(
                RELEASE,
                "if position <= durable:\n                    prop",
                "if True:\n                    prop",
            ),
        ),
        "creek",
    ),
    # --- rule 3: responses after decisions ---------------------------------------------------
    Mutant(
        "response_skips_records_of_earlier_batches",
        "rule 3: a response waits for the records of earlier batches",
        300,
        (
            Edit(
                RELEASE,
                """\
        elif effects.persist:
            count = _required_count(effects.persist)
            if count:
                self._response_position = self.end_position + count
""",
                """\
        else:
            count = _required_count(effects.persist)
            self._response_position = self.end_position + count if count else 0
""",
            ),
        ),
        "creek",
    ),
    # --- rule 4: responses before requests are durable ---------------------------------------
    Mutant(
        "stable_response_leaves_before_its_records",
        "rule 4: only tentative responses leave before their records are durable",
        300,
        (
            Edit(
                RELEASE,
                "early_respond = [each for each in respond if each.kind is ResponseKind.TENTATIVE]",
                "early_respond = respond",
            ),
            Edit(
                RELEASE,
                "respond = [each for each in respond if each.kind is not ResponseKind.TENTATIVE]",
                "respond = ()",
            ),
        ),
    ),
    Mutant(
        "tentative_response_never_waits",
        "rule 4: tentative responses wait for their records unless durability is memory",
        300,
        (Edit(RELEASE, "elif self._responds_before_durable:", "elif True:"),),
    ),
    # --- rule 5: failing disks ---------------------------------------------------------------
    Mutant(
        "read_exposes_a_volatile_request",
        "rule 5: reads wait while a request issued here is not durable",
        300,
        (
            Edit(
                RELEASE,
                "return self._has_unjournaled_request or self._issued_position > "
                "self._released_position",
                "return False",
            ),
        ),
        "creek",
    ),
    Mutant(
        "issued_request_counts_as_durable",
        "rule 5: a request issued here is volatile until its records are durable",
        300,
        (
            Edit(
                RELEASE,
                "self._has_unjournaled_request, self._issued_position = False, self.end_position",
                "self._has_unjournaled_request = False",
            ),
        ),
        "creek",
    ),
    # --- rule 6: snapshots -------------------------------------------------------------------
    Mutant(
        "snapshot_leaves_before_its_position",
        "rule 6: a snapshot leaves once the records before its point in time are durable",
        300,
        (
            Edit(
                RELEASE,
                "if not self._held and position <= durable:\n            return True",
                "if True:\n            return True",
            ),
        ),
        "creek",
        first=250,
    ),
)
