"""What replicas undertake, as far as schemes differ: facts for those who judge a run."""

import msgspec


class SchemeGuarantees(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of Creek."""

    voters: tuple[int, ...] = ()
    """Who has a vote in consensus; none is named where all members have one."""
    contexts: bool = True
    """Does a strong request take the weak ones of its causal context along (line 19)? If not, every
    request is ordered for itself, with an empty context."""
    tentative: bool = True
    """Are operations answered before their place is certain? If not, weak and strong alike get one
    stable answer."""
    sequential: bool = False
    """Is one request executed after the other, so that an answer counts all that was there?"""
