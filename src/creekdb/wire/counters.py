"""Counters of input that a replica rejects or drops.

`creek status` and the metric `creek_rejected_total` report them by these values. Three other
sources add values of their own:

- A rejected call, connection or HTTP request counts under its `RejectReason`. A peer that sends
  malformed bytes, or has another version or data type, counts under the same reasons.
- A failed TLS handshake counts under `tls_` and OpenSSL's explanation.
- The protocol counts the messages that it rejects.
"""

from enum import StrEnum


class ServerCounter(StrEnum):
    """Cause for which a replica rejects or drops a connection, a message or a response."""

    CERTIFICATE = "certificate"
    """The certificate of a peer belongs to another replica."""
    CLUSTER = "cluster"
    """A peer belongs to another cluster."""
    CONFLICTING_STATE = "conflicting_state"
    """The state of a peer contradicts that of this replica, because a member has lost data."""
    CONNECTION_LIMIT = "connection_limit"
    """A connection would take one of the reserved file descriptors."""
    CUT = "cut"
    """`creek up` has cut the link to a peer."""
    DUPLICATE_REPLICA = "duplicate_replica"
    """A second replica with the number of a connected peer."""
    MEMBERS = "members"
    """A peer names other members, or is not one of the members."""
    NO_HELLO = "no_hello"
    """A dialled peer closes the connection before its hello."""
    NOT_STARTED = "not_started"
    """Messages dropped because this replica has not dialled every member yet."""
    PEER_NOT_CONNECTED = "peer_not_connected"
    """Messages to a peer without a connection."""
    PEER_UNKNOWN = "peer_unknown"
    """Messages to a replica whose address this replica does not have."""
    PEER_UNREACHABLE = "peer_unreachable"
    """Failed attempts to dial a peer."""
    RESPONSE_TOO_LARGE = "response_too_large"
    """Responses replaced by an error because they exceed the frame limit."""
    ROLLED_BACK = "rolled_back"
    """The data directory of a peer, or of this replica, is an older copy."""
    SLOW_CLIENT = "slow_client"
    """Connections closed because the client does not read its responses."""
    SLOW_DISK = "slow_disk"
    """Messages dropped because the journal waits for the disk."""
    SLOW_PEER = "slow_peer"
    """Messages dropped because the peer does not read them fast enough."""
    TLS_MISSING = "tls_missing"
    """Connections to or from an endpoint that does not use TLS, although this replica does."""
