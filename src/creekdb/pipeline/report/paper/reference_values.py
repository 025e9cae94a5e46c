"""Systems that the paper compares, and numbers that drawings or several statements share."""

from typing import Final

from creekdb.pipeline.report.quantities import Band

SCHEME_NAMES: Final = {"smr": "SMR", "bayou": "Bayou", "archie": "Archie", "creek": "Creek"}
SEQUENTIAL_SCHEMES: Final = ("smr", "bayou")
"""Schemes that execute transactions sequentially."""
FIGURE_ORDER: Final = ("creek", "archie", "smr", "bayou")
"""Order of the schemes in the figures."""
CONCURRENT_SCHEMES: Final = ("creek", "archie")


PEAKS_TPS: Final = {"smr": 2_700.0, "bayou": 2_700.0, "creek": 32_500.0, "archie": 35_000.0}
"""Peak throughput with five warehouses."""
PEAKS_TPS_BY_WAREHOUSES: Final = {
    ("creek", 1): 11_000.0,
    ("archie", 1): 11_000.0,
    ("creek", 20): 40_000.0,
    ("archie", 20): 40_000.0,
    **{(scheme, 5): peak for scheme, peak in PEAKS_TPS.items()},
    **{(scheme, warehouses): 2_700.0 for scheme in SEQUENTIAL_SCHEMES for warehouses in (1, 20)},
}
CREEK_ACCURACY: Final = {1: Band(0.92, 1.0), 5: Band(0.98, 1.0), 20: Band(0.9995, 1.0)}
"""Accuracy of Creek by number of warehouses. "Perfect" denotes values that round to 100.0 %."""
SLOW_EXEC_SCALE: Final = 5.0
"""Factor of the execution times in Section 6.3."""
STRONG_SHARE_HIGH: Final = 0.5
STRONG_SHARE_LOW: Final = 0.1
