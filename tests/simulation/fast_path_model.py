"""Model of one instance of consensus with a fast path, and an exhaustive search of its states.

The model is the executable specification of `docs/internals/fast-path.md`. Instances interact only
through the promised ballots, so one instance is enough. A message that was sent stays available for
ever and need not arrive, so every loss, delay, repetition and reordering is included. A record
becomes durable and its message leaves in one step. A crash between the two equals a lost message.

No ballot follows the last one of a scope. Each value that its leader proposes can be chosen,
because no acceptor may refuse it. The model therefore counts such a value as chosen at once.

`Rules` has one switch per rule. Each switch, turned off alone, must lead to a violation.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Rules(NamedTuple):
    """Rules of the fast path. All of them hold in the design."""

    fast_quorum_is_complete: bool = True
    """A fast decision needs the whole fast quorum, not all but one of its members."""
    fast_decision_needs_leader: bool = True
    """A fast decision needs the vote of the leader, not only equal first votes."""
    majority_counts_second_votes_only: bool = True
    """A first vote counts in the fast quorum, and in no other majority."""
    first_votes_are_recorded: bool = True
    """A first vote is durable before it is sent."""
    first_votes_respect_promises: bool = True
    """No first vote is cast below a promised ballot."""
    first_votes_wait_for_leader: bool = True
    """First votes are cast only in a ballot whose leader has found the instance free."""
    leader_proposes_once: bool = True
    """A leader proposes one value per ballot."""
    promises_report_first_votes: bool = True
    """A promise reports first votes, and the next leader proposes them again."""
    recovery_prefers_second_votes: bool = True
    """A new leader prefers the entry of the old leader to first votes in the same ballot."""
    recovery_compares_ballots: bool = True
    """A new leader prefers a first vote to the entry of a leader of an earlier ballot."""
    quorum_is_fixed: bool = True
    """The ballot names the only fast quorum, so not every majority with the leader is one."""
    lost_disk_restores_first_votes: bool = True
    """A replica that lost its disk restores first votes from the reports of the others."""


class Term(NamedTuple):
    """Ballot of a scope. Its number is its position in the scope, counted from 1."""

    owner: int
    fast_quorum: tuple[int, ...]
    is_disk_recovery: bool = False
    """True if the owner lost its disk and only asks for promises of the ballot."""


class Scope(NamedTuple):
    acceptors: int
    terms: tuple[Term, ...]
    values: int = 2

    @property
    def majority(self) -> int:
        return self.acceptors // 2 + 1


Cast = tuple[int, int]
"""Ballot and value of a vote."""
NOTHING: Cast = (0, 0)


class Report(NamedTuple):
    accepted: Cast = NOTHING
    first: Cast = NOTHING


class AcceptorState(NamedTuple):
    promised: int = 0
    report: Report = Report()
    """Durable votes: the last second vote and the last first vote."""
    second_votes: frozenset[Cast] = frozenset()
    """Votes that were sent. The loss of a disk does not undo them."""
    first_votes: frozenset[Cast] = frozenset()
    is_abstaining: bool = False

    @property
    def sent_votes(self) -> frozenset[Cast]:
        return self.second_votes | self.first_votes


class TermState(NamedTuple):
    reports: tuple[Report | None, ...]
    """Promise of each acceptor."""
    is_leading: bool = False
    is_open: bool = False
    """True if the leader found the instance free, and announced that."""
    proposals: frozenset[int] = frozenset()


class State(NamedTuple):
    acceptors: tuple[AcceptorState, ...]
    terms: tuple[TermState, ...]


class Violation(NamedTuple):
    text: str
    path: tuple[str, ...]


class Result(NamedTuple):
    states: int
    transitions: int
    violation: Violation | None
    fast_decisions: int
    """States in which only a fast quorum has chosen a value."""


class Model:
    def __init__(self, scope: Scope, rules: Rules = Rules()) -> None:  # noqa: B008 - immutable
        self.scope = scope
        self.rules = rules
        self._everybody = range(scope.acceptors)
        self._last = len(scope.terms)

    def initial(self) -> State:
        nothing = (None,) * self.scope.acceptors
        return State((AcceptorState(),) * self.scope.acceptors, (TermState(nothing),) * self._last)

    # --- decisions ------------------------------------------------------------------------------

    def chosen(self, state: State) -> dict[int, bool]:
        """Return the chosen values; True for those that some majority chose by second votes."""
        found: dict[int, bool] = {}
        for ballot, term in enumerate(self.scope.terms, 1):
            if term.is_disk_recovery:
                continue
            for value in range(1, self.scope.values + 1):
                by_majority = self._is_chosen_by_majority(state, ballot, value)
                if by_majority or self._is_chosen_fast(state, ballot, value):
                    found[value] = found.get(value, False) or by_majority
        return found

    def _is_chosen_by_majority(self, state: State, ballot: int, value: int) -> bool:
        if ballot == self._last:
            return value in state.terms[ballot - 1].proposals
        cast = (ballot, value)
        voters = 0
        for each in state.acceptors:
            is_counted = cast in each.second_votes
            if not self.rules.majority_counts_second_votes_only:
                is_counted = is_counted or cast in each.first_votes
            voters += is_counted
        is_proposed = value in state.terms[ballot - 1].proposals
        return is_proposed and voters >= self.scope.majority

    def _is_chosen_fast(self, state: State, ballot: int, value: int) -> bool:
        owner, quorum, _ = self.scope.terms[ballot - 1]
        cast = (ballot, value)
        bound = {each for each in quorum if cast in state.acceptors[each].sent_votes}
        required = set(quorum)
        if not self.rules.fast_decision_needs_leader:
            required.discard(owner)
        if not self.rules.quorum_is_fixed:
            everybody = enumerate(state.acceptors)
            bound = {each for each, acceptor in everybody if cast in acceptor.sent_votes}
            return owner in bound and len(bound) >= self.scope.majority
        if not self.rules.fast_quorum_is_complete:
            return owner in bound and len(bound) >= len(required) - 1
        return required <= bound

    # --- recovery -------------------------------------------------------------------------------

    def recovered(self, reports: Iterable[Report]) -> Report:
        """Return the vote to keep: that of the highest ballot, second votes before first ones."""
        accepted, first = NOTHING, NOTHING
        for each in reports:
            accepted = max(accepted, each.accepted)
            if self.rules.promises_report_first_votes:
                first = max(first, each.first)
        if not self.rules.recovery_compares_ballots:
            keeps_accepted = accepted > NOTHING
        elif not self.rules.recovery_prefers_second_votes:
            keeps_accepted = accepted[0] > first[0]
        else:
            keeps_accepted = accepted[0] >= first[0]
        return Report(accepted, NOTHING) if keeps_accepted else Report(NOTHING, first)

    # --- steps ----------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for ballot, term in enumerate(self.scope.terms, 1):
            yield from self._promises(state, ballot, term)
            if term.is_disk_recovery:
                yield from self._disk_recovery(state, ballot, term)
                continue
            yield from self._leading(state, ballot, term)
            yield from self._proposals(state, ballot)
            if ballot < self._last:
                yield from self._first_votes(state, ballot, term)
                yield from self._second_votes(state, ballot)
        if not self.rules.first_votes_are_recorded:
            for each in self._everybody:
                acceptor = state.acceptors[each]
                if acceptor.report.first != NOTHING:
                    report = acceptor.report._replace(first=NOTHING)
                    yield f"{each} restarts", _with_acceptor(state, each, report=report)

    def _promises(self, state: State, ballot: int, term: Term) -> Iterator[tuple[str, State]]:
        promises = state.terms[ballot - 1].reports
        if term.is_disk_recovery and not state.acceptors[term.owner].is_abstaining:
            return
        for each in self._everybody:
            acceptor = state.acceptors[each]
            if acceptor.is_abstaining or acceptor.promised >= ballot:
                continue
            if each != term.owner and promises[term.owner] is None and not term.is_disk_recovery:
                continue  # the owner of a ballot promises it first
            reports = (*promises[:each], acceptor.report, *promises[each + 1 :])
            promised = _with_acceptor(state, each, promised=ballot)
            yield f"{each} promises {ballot}", _with_term(promised, ballot, reports=reports)

    def _leading(self, state: State, ballot: int, term: Term) -> Iterator[tuple[str, State]]:
        current = state.terms[ballot - 1]
        if current.is_leading or state.acceptors[term.owner].is_abstaining:
            return
        reported = {each: report for each, report in enumerate(current.reports) if report}
        nothing = (None,) * self.scope.acceptors
        for size in range(self.scope.majority, len(reported) + 1):
            for quorum in itertools.combinations(sorted(reported), size):
                if term.owner not in quorum:
                    continue
                accepted, first = self.recovered(reported[each] for each in quorum)
                value = max(accepted[1], first[1])
                leading = TermState(
                    nothing, True, not value, frozenset({value}) if value else frozenset()
                )
                yield (
                    f"{term.owner} leads {ballot} by {quorum}",
                    _with_term(state, ballot, **leading._asdict()),
                )

    def _proposals(self, state: State, ballot: int) -> Iterator[tuple[str, State]]:
        term = state.terms[ballot - 1]
        if not term.is_open or (term.proposals and self.rules.leader_proposes_once):
            return
        for value in self._fresh_values(state):
            if value not in term.proposals:
                proposals = term.proposals | {value}
                yield f"{ballot} proposes {value}", _with_term(state, ballot, proposals=proposals)

    def _first_votes(self, state: State, ballot: int, term: Term) -> Iterator[tuple[str, State]]:
        if self.rules.first_votes_wait_for_leader and not state.terms[ballot - 1].is_open:
            return
        for each in term.fast_quorum if self.rules.quorum_is_fixed else self._everybody:
            acceptor = state.acceptors[each]
            if each == term.owner or not self._may_vote(acceptor, ballot, first=True):
                continue
            if ballot in (acceptor.report.accepted[0], acceptor.report.first[0]):
                continue
            for value in self._fresh_values(state):
                cast = (ballot, value)
                after = _with_acceptor(
                    state,
                    each,
                    promised=max(ballot, acceptor.promised),
                    report=acceptor.report._replace(first=cast),
                    first_votes=acceptor.first_votes | {cast},
                )
                yield f"{each} casts the first vote {cast}", after

    def _second_votes(self, state: State, ballot: int) -> Iterator[tuple[str, State]]:
        for each in self._everybody:
            acceptor = state.acceptors[each]
            if not self._may_vote(acceptor, ballot):
                continue
            has_voted = acceptor.report.accepted[0] == ballot
            if has_voted and self.rules.leader_proposes_once:
                continue
            for value in sorted(state.terms[ballot - 1].proposals):
                cast = (ballot, value)
                if cast in acceptor.second_votes:
                    continue
                after = _with_acceptor(
                    state,
                    each,
                    promised=ballot,
                    report=acceptor.report._replace(accepted=cast),
                    second_votes=acceptor.second_votes | {cast},
                )
                yield f"{each} follows the leader with {cast}", after

    def _may_vote(self, acceptor: AcceptorState, ballot: int, *, first: bool = False) -> bool:
        if acceptor.is_abstaining:
            return False
        if first and not self.rules.first_votes_respect_promises:
            return True
        return acceptor.promised <= ballot

    def _disk_recovery(self, state: State, ballot: int, term: Term) -> Iterator[tuple[str, State]]:
        """The owner loses its disk. It joins again when all others have promised its ballot."""
        current, acceptor = state.terms[ballot - 1], state.acceptors[term.owner]
        if current.is_leading:
            return
        if not acceptor.is_abstaining:
            after = _with_acceptor(
                state, term.owner, promised=0, report=Report(), is_abstaining=True
            )
            yield f"{term.owner} loses its disk", after
            return
        others = [each for each in self._everybody if each != term.owner]
        reports = [report for each in others if (report := current.reports[each]) is not None]
        if len(reports) < len(others):
            return
        report = self.recovered(reports)
        if not self.rules.lost_disk_restores_first_votes:
            report = report._replace(first=NOTHING)
        joined = _with_acceptor(
            state, term.owner, promised=ballot, report=report, is_abstaining=False
        )
        nothing = (None,) * self.scope.acceptors
        yield f"{term.owner} joins", _with_term(joined, ballot, reports=nothing, is_leading=True)

    def _fresh_values(self, state: State) -> range:
        """Return the values in use and one more. Unused values are interchangeable."""
        used = 0
        for acceptor in state.acceptors:
            for _, value in acceptor.sent_votes:
                used = max(used, value)
        for term in state.terms:
            used = max(used, *term.proposals, 0)
        return range(1, min(used + 1, self.scope.values) + 1)


def search(scope: Scope, rules: Rules = Rules()) -> Result:  # noqa: B008 - immutable
    """Visit every state of the scope, breadth first, up to the first violation."""
    model = Model(scope, rules)
    initial = model.initial()
    origins: dict[State, tuple[State, str] | None] = {initial: None}
    queue = deque([initial])
    transitions = fast_decisions = 0
    while queue:
        state = queue.popleft()
        chosen = model.chosen(state)
        fast_decisions += any(not by_majority for by_majority in chosen.values())
        if len(chosen) > 1:
            violation = Violation(f"chosen values {sorted(chosen)}", _path(origins, state))
            return Result(len(origins), transitions, violation, fast_decisions)
        for text, after in model.steps(state):
            transitions += 1
            if after not in origins:
                origins[after] = (state, text)
                queue.append(after)
    return Result(len(origins), transitions, None, fast_decisions)


def _path(origins: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    texts: list[str] = []
    while (origin := origins[state]) is not None:
        state, text = origin
        texts.append(text)
    return tuple(reversed(texts))


def _with_acceptor(state: State, index: int, **changes: Any) -> State:
    acceptors = list(state.acceptors)
    acceptors[index] = acceptors[index]._replace(**changes)
    return state._replace(acceptors=tuple(acceptors))


def _with_term(state: State, ballot: int, **changes: Any) -> State:
    terms = list(state.terms)
    terms[ballot - 1] = terms[ballot - 1]._replace(**changes)
    return state._replace(terms=tuple(terms))
