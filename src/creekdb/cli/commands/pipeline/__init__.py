"""Commands of `creek pipeline`."""
