"""The extraction service: the only writer of memories.

`handlers` accepts requests, `queue` stores jobs, `worker` runs them, `pipeline` decides what
changes, and `storage` writes it.
"""
