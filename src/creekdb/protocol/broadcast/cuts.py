"""Cuts: the weak requests that a batch binds to a strong request, beyond its causal context.

The context of a strong request is fixed at its origin (line 19). It has "at least" the requests
that the origin has delivered. A leader with `late_contexts` extends it by every weak request with a
lower timestamp that the leader has delivered, so that committing the strong request overtakes none
of these.

A cut has at most one dot per origin. The dot of a weak request stands for this request and for all
earlier weak requests of its origin. This is exact: timestamps increase at an origin, and requests
of one origin are delivered in issue order. In a batch, the dots of a cut precede their strong
request. A cut never depends on the instances in flight, because these may come to nothing.
"""

from collections import deque

from creekdb.protocol.ids.version_vector import Dot, DotSet
from creekdb.protocol.request import Request


class WeakRequests:
    """Delivered weak requests by origin, in issue order."""

    def __init__(self, committed: DotSet) -> None:
        """`committed` has the identifiers of all committed requests."""
        self._committed = committed
        self._by_origin: dict[int, deque[Request]] = {}
        """Uncommitted weak requests of each origin, after at most one committed request."""

    def add(self, request: Request) -> None:
        """Add a weak request, delivered after all earlier requests of its origin."""
        origin = request.id.replica
        requests = self._by_origin.get(origin)
        if requests is None:
            requests = self._by_origin[origin] = deque()
        requests.append(request)
        while len(requests) > 1 and requests[1].id in self._committed:
            requests.popleft()

    def cut_before(self, strong: Request) -> tuple[Dot, ...]:
        """Return the cut of a strong request, by origin.

        The cut depends on the delivered requests only, except for origins without uncommitted
        requests. It omits the origin of the strong request, since the context has those requests.
        """
        timestamp, id = strong.timestamp, strong.id
        cut: list[Dot] = []
        for origin in sorted(self._by_origin):
            if origin == id.replica:
                continue
            for request in reversed(self._by_origin[origin]):
                if request.timestamp < timestamp or (
                    request.timestamp == timestamp and request.id < id
                ):
                    cut.append(request.id)
                    break
        return tuple(cut)
