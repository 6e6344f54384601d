"""The durable queue: jobs in our own table, claimed with SKIP LOCKED.

`jobs` serves callers (look up, list, retry, cancel), `claims` serves workers (claim, record
progress, finish), `enqueueing` and `cancelling` serve the rest of the service within its own
transactions, and `signals` wakes all of them through NOTIFY. The guarantees are: a job is enqueued
in the transaction that accepts its input; jobs of one user run one after another in the order of
acceptance; a claim has a lease and a number, and a worker whose number is no longer current writes
nothing; a job finishes in the transaction of its last effects.
"""
