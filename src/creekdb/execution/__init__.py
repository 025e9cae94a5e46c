"""Execution of operations: data types, transactions, and the stores that they run on.

Read in this order: `datatype`, `transaction` and `result`; `sequential`, the reference; `undo`
(Algorithm 2); `mvcc`, the version store (Section 4.4). `keys`, `serializable`, `base_state`,
`random` and `step_limit` hold the rules that keep operations deterministic. `debug` verifies
determinism, `module_loader` imports user modules, and `python_runtime` tunes the interpreter.
"""
