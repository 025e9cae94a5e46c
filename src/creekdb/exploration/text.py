"""Messages and responses of an exploration as text."""

from creekdb.protocol.effects import Response
from creekdb.protocol.messages import (
    Accept,
    AcceptedValue,
    Cast,
    Decisions,
    FirstVote,
    Message,
    Prepare,
    Promise,
    PullResponse,
    Reject,
    Vote,
)
from creekdb.protocol.request import Batch, Request


def message_text(message: Message) -> str:
    name = type(message).__name__
    match message:
        case Cast(requests=requests) | PullResponse(requests=requests):
            return f"{name} of {', '.join(map(_request_text, requests))}"
        case Prepare(ballot=ballot, first=first):
            return f"{name} of ballot {ballot} from instance {first}"
        case Promise(ballot=ballot, decided=decided, accepted=accepted):
            votes = [
                f"{_vote_text(each)}: {_ids(each.batch)} in {each.ballot}" for each in accepted
            ]
            return f"{name} of ballot {ballot}, {decided} decided, votes [{', '.join(votes)}]"
        case Accept(ballot=ballot, instance=instance, batch=batch):
            return f"{name} {_ids(batch)} in instance {instance}, ballot {ballot}"
        case FirstVote(ballot=ballot, instance=instance, batch=batch):
            return f"{name} for {_ids(batch)} in instance {instance}, ballot {ballot}"
        case Vote(ballot=ballot, instance=instance):
            return f"{name} in instance {instance}, ballot {ballot}"
        case Reject(promised=ballot):
            return f"{name}, promised is {ballot}"
        case Decisions(first=first, batches=batches):
            return f"{name} from instance {first}: {', '.join(map(_ids, batches))}"
        case _:
            return name


def response_text(response: Response) -> str:
    outcome = response.outcome
    value = repr(outcome.value) if outcome.error is None else outcome.error
    return f"{response.kind.value} {value}"


def _vote_text(value: AcceptedValue) -> str:
    return f"first vote in {value.true_instance}" if value.is_first else f"{value.instance}"


def _request_text(request: Request) -> str:
    kind = "strong" if request.strong else "weak"
    context = "" if request.context is None else f" with context {_ids(tuple(request.context))}"
    return f"{kind} {request.id}{context}"


def _ids(batch: Batch) -> str:
    return f"({', '.join(map(str, batch))})"
