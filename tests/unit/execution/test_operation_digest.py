"""Digests of operations: equal for equal code, different for code that behaves otherwise."""

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import creekdb
from creekdb.execution.operation_digest import NO_DIGEST, operation_digests

SHOP = """
import creekdb
from shop_prices import discount
import shop_taxes

shop = creekdb.DataType("shop")
STOCK = 3
LIMITS = {}
LIMITS["lamp"] = 2


def left_of(tx, item):
    return tx.get(item, STOCK)


@shop.operation
def buy(tx, item: str, count: int = 1) -> int:
    '''Sell an item.'''
    left = left_of(tx, item) - count
    if left < 0 or count > LIMITS.get(item, 9):
        raise LookupError(f"no {item} left")
    tx.put(item, left)
    return left


@shop.operation(readonly=True)
def price(tx, item):
    return discount(20) + shop_taxes.tax(20)


@shop.operation(touches=lambda item: [item])
def give(tx, item):
    return tx.get(item)
"""
PRICES = """
SHARE = 10

def discount(price):
    return price * SHARE // 100
"""
TAXES = """
def tax(price):
    return price // 5

def unused():
    return 1
"""
Digests = dict[str, bytes]


class ShopModules:
    """Modules of a shop in a directory, which are imported again for each text."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def digests(self, shop: str = SHOP, prices: str = PRICES, taxes: str = TAXES) -> Digests:
        for name, text in (("shop_main", shop), ("shop_prices", prices), ("shop_taxes", taxes)):
            sys.modules.pop(name, None)
            (self._directory / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return operation_digests(importlib.import_module("shop_main").shop)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShopModules]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield ShopModules(tmp_path)
    for name in ("shop_main", "shop_prices", "shop_taxes"):
        sys.modules.pop(name, None)


def changed_names(before: Digests, after: Digests) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    left = left_of(tx, item) - count",
            "    # sold\n    left = (left_of(tx,\n item)-count)",
        ),
        ("'''Sell an item.'''", "'''Sell several items.'''"),
        ("    '''Sell an item.'''\n", ""),
        ("item: str, count: int = 1) -> int", "item, count: 'int | None' = 1)"),
        ("    left = left_of", "    left: int = left_of"),
        ('LIMITS["lamp"]', "LIMITS['lamp']"),
    ],
)
def test_text_without_effect_does_not_change_a_digest(
    modules: ShopModules, old: str, new: str
) -> None:
    assert old in SHOP
    assert modules.digests(SHOP.replace(old, new)) == modules.digests()


def test_the_order_of_definitions_does_not_change_a_digest(modules: ShopModules) -> None:
    start, end = SHOP.index("def left_of"), SHOP.index("@shop.operation\n")
    moved = SHOP[:start] + SHOP[end:] + SHOP[start:end]
    assert modules.digests(moved) == modules.digests()


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("left < 0", "left <= 0", {"buy"}),
        ("count: int = 1", "count: int = 2", {"buy"}),
        ("tx.get(item, STOCK)", "tx.get(item, STOCK + 1)", {"buy"}),
        ("STOCK = 3", "STOCK = 4", {"buy"}),
        ('LIMITS["lamp"] = 2', 'LIMITS["lamp"] = 1', {"buy"}),
        ("lambda item: [item]", "lambda item: [item, item]", {"give"}),
        ("(readonly=True)", "", {"price"}),
        ("tax(20)", "tax(19)", {"price"}),
        ('DataType("shop")', 'DataType("shop", steps=99)', {"buy", "price", "give", "noop"}),
    ],
)
def test_a_change_concerns_the_operations_that_use_it(
    modules: ShopModules, old: str, new: str, changed: set[str]
) -> None:
    assert old in SHOP
    assert changed_names(modules.digests(), modules.digests(SHOP.replace(old, new))) == changed


def test_modules_of_the_same_directory_are_followed(modules: ShopModules) -> None:
    before = modules.digests()
    assert changed_names(before, modules.digests(prices=PRICES.replace("10", "11"))) == {"price"}
    assert changed_names(before, modules.digests(taxes=TAXES.replace("5", "6"))) == {"price"}
    assert modules.digests(taxes=TAXES.replace("return 1", "return 2")) == before


def test_star_imports_and_local_imports_are_followed(modules: ShopModules) -> None:
    for shop in (
        SHOP.replace("from shop_prices import discount", "from shop_prices import *"),
        SHOP.replace("from shop_prices import discount", "").replace(
            "    return discount(20)",
            "    from shop_prices import discount\n    return discount(20)",
        ),
    ):
        before = modules.digests(shop)
        after = modules.digests(shop, prices=PRICES.replace("10", "11"))
        assert changed_names(before, after) == {"price"}


def test_values_of_constants_are_covered(
    modules: ShopModules, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = SHOP.replace("STOCK = 3", "import os\nSTOCK = int(os.environ.get('SHOP_STOCK', '3'))")
    before = modules.digests(shop)
    monkeypatch.setenv("SHOP_STOCK", "4")
    assert changed_names(before, modules.digests(shop)) == {"buy"}


def closing_over(amount: object) -> Callable[..., object]:
    def add(tx: creekdb.Transaction) -> object:
        return amount

    return add


def digest_of(function: Callable[..., object]) -> bytes:
    datatype = creekdb.DataType("single")
    datatype.operation(name="only")(function)
    return operation_digests(datatype)["only"]


def plus(amount: int, tx: creekdb.Transaction) -> int:
    return amount


def test_functions_made_by_functions_are_told_apart_by_plain_values() -> None:
    assert digest_of(closing_over(1)) == digest_of(closing_over(1)) != digest_of(closing_over(2))
    assert digest_of(functools.partial(plus, 1)) != digest_of(functools.partial(plus, 2))
    assert digest_of(closing_over(plus)) != digest_of(closing_over(closing_over(1)))


def test_lambdas_have_the_digest_of_their_statement() -> None:
    assert digest_of(lambda tx: 1) != NO_DIGEST


def test_an_operation_without_source_has_no_digest() -> None:
    assert digest_of(eval("lambda tx: 1", {"__name__": "nowhere"})) == NO_DIGEST  # noqa: S307


def test_a_compiled_module_has_the_digest_of_its_source(
    modules: ShopModules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = modules.digests()
    shop: ModuleType = sys.modules["shop_main"]
    library = tmp_path / "shop_main.cpython-311-x86_64-linux-gnu.so"
    monkeypatch.setattr(shop, "__file__", str(library))
    assert operation_digests(shop.shop) == before
