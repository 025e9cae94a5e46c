"""Backups of the committed state, and clusters restored from them."""
