"""Rights that tokens grant."""

import pytest

from creekdb.server.runtime.config import SecurityConfig
from creekdb.server.security.authentication import AccessTokens

TOKENS = {"shop": "shop-token-0123456789", "operator": "operator-token-0123456789"}


def test_without_tokens_every_client_may_call_and_administer() -> None:
    tokens = AccessTokens(SecurityConfig())

    assert not tokens.is_required
    assert tokens.can_call("")
    assert tokens.can_administer("")


@pytest.mark.parametrize(
    ("token", "calls", "administers"),
    [
        (TOKENS["shop"], True, False),
        (TOKENS["operator"], True, True),
        (TOKENS["operator"] + "x", False, False),
        (TOKENS["operator"][:-1], False, False),
        ("", False, False),
        ("käse", False, False),
    ],
)
def test_a_token_grants_the_rights_of_its_name(token: str, calls: bool, administers: bool) -> None:
    tokens = AccessTokens(SecurityConfig(tokens=TOKENS, admins=("operator",)))

    assert tokens.is_required
    assert tokens.can_call(token) is calls
    assert tokens.can_administer(token) is administers


def test_a_replaced_configuration_revokes_tokens() -> None:
    tokens = AccessTokens(SecurityConfig(tokens=TOKENS, admins=("operator",)))
    tokens.replace(SecurityConfig(tokens={"shop": "another-token-0123456789"}))

    assert not tokens.can_call(TOKENS["shop"])
    assert tokens.can_call("another-token-0123456789")
