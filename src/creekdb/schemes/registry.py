"""Schemes by name, for drivers and commands that create replicas without importing each scheme."""

from typing import Final

from creekdb.errors import UnknownName, UsageError
from creekdb.execution.module_loader import import_user_module
from creekdb.protocol.probes import Probe
from creekdb.schemes import archie, basic, bayou, creek, differential, smr
from creekdb.schemes.core.spec import Scheme, SchemeSpec

SCHEMES: dict[str, SchemeSpec] = {
    module.SPEC.name: module.SPEC for module in (basic, creek, differential, smr, bayou, archie)
}
BUILT_IN: Final = tuple(SCHEMES)


def get_spec(name: str) -> SchemeSpec:
    """Return the scheme of that name, or load it from `package.module:Class`.

    Instead of a class or a factory, the module's variable may hold a `SchemeSpec`. Raises
    `UnknownName` for any other name.
    """
    if name in SCHEMES:
        return SCHEMES[name]
    if ":" not in name:
        raise UnknownName("scheme", name, [*SCHEMES, "package.module:Class"])
    module, variable = import_user_module("scheme", name)
    if not hasattr(module, variable):
        raise UsageError(f"scheme {name}: {module.__name__} has no '{variable}'")
    scheme: SchemeSpec | Scheme = getattr(module, variable)
    if isinstance(scheme, SchemeSpec):
        return scheme
    if not callable(scheme):
        raise UsageError(f"scheme {name}: not callable; name a replica class or a factory")
    return SchemeSpec(name=name, create=scheme)


def get_scheme(name: str) -> Scheme:
    """Return the class or factory of the scheme's replicas."""
    return get_spec(name).create


def reachable_probes(name: str) -> tuple[Probe, ...]:
    """Return the probes that replicas of that scheme can fire."""
    unreachable = get_spec(name).unreachable_probes
    return tuple(probe for probe in Probe if probe not in unreachable)
