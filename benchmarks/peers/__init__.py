"""The same searches in other memory stores: on the same data, Postgres and embeddings endpoint.

Each peer is installed into an environment of its own that is removed with the run; none is a
dependency of this project. It stores and searches by its own public calls, within its own process:
it pays neither for gRPC nor for authentication. `stores` runs with a peer's own Python, and needs
the standard library and that peer only.
"""
