"""The systems that the paper compares."""

from typing import Final

NAMES: Final = {"smr": "SMR", "bayou": "Bayou", "archie": "Archie", "creek": "Creek"}
SEQUENTIAL: Final = ("smr", "bayou")
"""They execute one transaction after the other."""
CONCURRENT: Final = ("creek", "archie")
