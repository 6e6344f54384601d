# Generated from ../_async/__init__.py by tools/unasync.py. Do not edit.
"""One version of the client: tools/unasync.py generates `_sync` from `_async`."""
