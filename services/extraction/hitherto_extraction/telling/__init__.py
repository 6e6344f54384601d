"""Tells of changes: gives them their places in the stream, and sends them to webhooks.

Retrieval services stream what has a place (`WatchMemories`).
"""
