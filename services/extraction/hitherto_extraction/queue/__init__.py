"""The durable queue: jobs in our own table, claimed with SKIP LOCKED.

A job is enqueued in the transaction that accepts its input, and finishes in that of its last
effects. Jobs of one user run one after another in the order of acceptance. A claim has a lease and
a number, and a worker whose number is no longer current writes nothing.
"""
