"""Shared by both services: configuration, database, errors, gRPC, access, text, embeddings.

Nothing here knows either service. `hitherto` (the generated contract) lies below, the services
above.
"""
