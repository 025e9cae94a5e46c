"""Commands of `creek`, one module each."""
