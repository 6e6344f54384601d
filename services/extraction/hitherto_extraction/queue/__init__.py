"""Durable work: jobs in our own table, claimed with SKIP LOCKED.

`jobs` is what callers see and do (enqueue, look, retry, cancel), `claims` what workers do (claim,
renew, hand back, finish), `enqueueing` and `cancelling` what the rest of the service does in its
own transactions, `signals` wakes all of them through NOTIFY. The promises: a job is enqueued in
the transaction that accepts its input; jobs of one user run one after another in the order of
acceptance; a claim is leased and numbered, and a worker whose number is no longer the job's writes
nothing; a job is finished in the transaction of its last effects.
"""
