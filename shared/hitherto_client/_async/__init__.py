"""One version of the client: tools/unasync.py generates `_sync` from `_async`."""
