"""Guarantees in which the schemes differ, as input for the checkers."""

import msgspec


class SchemeGuarantees(msgspec.Struct, frozen=True, kw_only=True):
    """Guarantees of one scheme. The defaults are those of Creek."""

    voters: tuple[int, ...] = ()
    """Members with a vote in consensus. Empty if all members have one."""
    contexts: bool = True
    """True if a strong request commits the weak requests of its causal context too (line 19). If
    False, each request is ordered individually, with an empty context."""
    tentative: bool = True
    """True if operations have tentative responses. If False, weak and strong operations alike have
    one stable response."""
    sequential: bool = False
    """True if requests execute sequentially, so that a response reflects all earlier ones."""

    def with_voters(self, voters: tuple[int, ...]) -> "SchemeGuarantees":
        return msgspec.structs.replace(self, voters=voters)
