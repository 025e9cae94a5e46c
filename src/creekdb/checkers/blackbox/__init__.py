"""Black-box checkers: they judge what clients observed, and trust no record of a replica."""
