"""Who may call, and who may do what concerns the whole cluster: by token."""

import hmac

from creekdb.cluster.config import Security


class Tokens:
    def __init__(self, security: Security) -> None:
        self._names = {token.encode(): name for name, token in security.tokens.items()}
        self._admins = frozenset(security.admins)

    @property
    def are_needed(self) -> bool:
        return bool(self._names)

    def allow(self, token: str) -> bool:
        """May one with this token, or with none, call operations?"""
        return not self._names or self._name_of(token) is not None

    def allow_all(self, token: str) -> bool:
        """And also change the members, and take copies of the state?"""
        return not self._admins or self._name_of(token) in self._admins

    def _name_of(self, token: str) -> str | None:
        """Compared in a time that does not tell how much of it was right."""
        given = token.encode()
        found = None
        for known, name in self._names.items():
            if hmac.compare_digest(given, known):
                found = name
        return found
