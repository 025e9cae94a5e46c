"""Randomness: one seed, one independent generator per concern.

A generator is derived from the seed and a label, so drawing more numbers for one concern (one more
fault, say) does not shift the numbers another concern draws (the workload, say). Nothing else in
the simulator may create a generator.
"""

from random import Random


def derive_generator(seed: int, *label: str | int) -> Random:
    """The generator for the concern `label`; the same under any `PYTHONHASHSEED`."""
    return Random("/".join(map(str, (seed, *label))))
