"""The extraction service: the only writer of memories.

`handlers` accept, `queue` keeps, `worker` runs, `pipeline` decides, `storage` writes.
"""
