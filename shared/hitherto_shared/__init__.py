"""Shared by both services: configuration, database, errors, gRPC, access, text, embeddings.

Nothing here depends on a service, and only `hitherto` (the generated contract) is below it.
"""
