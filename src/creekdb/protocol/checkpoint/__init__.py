"""Checkpoints on disk and snapshots on the wire: journal compaction, transfer and streaming."""
