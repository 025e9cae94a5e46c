"""Mutants of the ready-made data types. All replicas agree on a wrong response, so the fuzzer does
not notice it."""

from tests.mutants.catalogue import Edit, MutantWithTests


def _mutant(name: str, rule: str, module: str, before: str, after: str) -> MutantWithTests:
    tests = (f"tests/unit/datatypes/test_{module}.py",)
    return MutantWithTests(name, rule, tests, (Edit(f"datatypes/{module}.py", before, after),))


MUTANTS: tuple[MutantWithTests, ...] = (
    _mutant(
        "counter_increments_backwards",
        "`increment` adds the amount",
        "counter",
        'tx.add("value", amount)',
        'tx.add("value", -amount)',
    ),
    _mutant(
        "bank_allows_one_overdraft",
        "an account is not overdrawn",
        "bank",
        "if before < _money(amount):",
        "if before + 1 < _money(amount):",
    ),
    _mutant(
        "bank_accepts_negative_amounts",
        "an amount is not negative",
        "bank",
        "if type(amount) is not int or amount < 0:",
        "if type(amount) is not int:",
    ),
    _mutant(
        "bank_returns_stale_balance_of_giver",
        "a transfer returns both balances after it",
        "bank",
        "    withdraw(tx, giver, amount)\n    after = deposit(tx, taker, amount)\n"
        "    return balance(tx, giver), after",
        "    left = withdraw(tx, giver, amount)\n    after = deposit(tx, taker, amount)\n"
        "    return left, after",
    ),
    _mutant(
        "kv_replaces_a_stored_none",
        "None is a value for `put_if_absent`",
        "kv",
        "if tx.get(_text(key), ABSENT) is not ABSENT:",
        "if tx.get(_text(key)) is not None:",
    ),
    _mutant(
        "list_duplicates_one_element_too_many",
        "`duplicate` accepts at most 16 elements",
        "lists",
        "if stop - first > DUPLICATE_LENGTH_MAX:",
        "if stop - first >= DUPLICATE_LENGTH_MAX:",
    ),
)
