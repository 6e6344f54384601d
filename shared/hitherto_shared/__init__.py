"""What both services stand on: configuration, database, errors, the wire, access, text, embeddings.

Nothing here knows either service. `hitherto` (the generated contract) lies below, the services
above.
"""
