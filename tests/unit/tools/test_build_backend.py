"""Requirements of wheels. `make release` builds them."""

import re

import pytest
from setuptools import build_meta

from tools.build_backend import COMPILER_PACKAGES, get_requires_for_build_wheel


@pytest.fixture(autouse=True)
def setuptools_requires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_meta, "get_requires_for_build_wheel", lambda _: [])


@pytest.mark.parametrize("value", [None, "", "0"])
def test_a_pure_wheel_requires_no_compiler(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CREEK_USE_MYPYC", raising=False)
    if value is not None:
        monkeypatch.setenv("CREEK_USE_MYPYC", value)

    assert not [each for each in get_requires_for_build_wheel() if "mypy" in each]


def test_a_compiled_wheel_requires_exact_versions_of_mypyc_and_of_the_types_that_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CREEK_USE_MYPYC", "1")

    pins = [each for each in get_requires_for_build_wheel() if "==" in each]

    assert all(re.fullmatch(r"[a-z-]+==[0-9.]+", pin) for pin in pins)
    assert {pin.partition("==")[0] for pin in pins} >= set(COMPILER_PACKAGES)
