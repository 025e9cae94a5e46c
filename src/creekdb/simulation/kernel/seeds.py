"""Random generators: one seed, one independent generator per concern.

A generator is derived from the seed and a label. Drawing more numbers for one concern, such as
faults, therefore does not shift the numbers of another, such as the workload. No other module of
the simulator may create a generator.
"""

from random import Random


def derive_generator(seed: int, *label: str | int) -> Random:
    """Return the generator of the concern `label`; independent of `PYTHONHASHSEED`."""
    return Random("/".join(map(str, (seed, *label))))
