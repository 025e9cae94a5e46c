"""How many arguments an operation takes."""

from typing import NamedTuple


class Arity(NamedTuple):
    least: int
    most: int | None
    """None: any number."""

    def takes(self, count: int) -> bool:
        return count >= self.least and (self.most is None or count <= self.most)

    def covers(self, other: "Arity") -> bool:
        """Does it take whatever the other one takes?"""
        if other.most is None:
            return self.most is None and self.takes(other.least)
        return self.takes(other.least) and self.takes(other.most)
