"""Version store (Section 4.4): multi-version state with speculative execution.

Read in this order: `entry`, `version_chain` and `register_table` hold the data; `snapshot` records
and validates reads; `read_index` finds affected readers; `version_store` combines them.
`merged_runs` compacts long tentative lists, `scheduler` chooses the next execution, and
`state_loader` loads checkpoints.
"""
