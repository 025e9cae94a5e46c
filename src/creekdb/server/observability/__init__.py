"""Status, metrics, recordings and divergence detection of a live replica."""
