"""The same searches in other memory stores: on the same data, Postgres and embeddings endpoint.

    python -m benchmarks.peers [--sizes 200,2000] [--seconds 5] [--only mem0ai] [--json FILE]

Each peer is installed from the package index into an environment of its own that is removed with
the run; none is a dependency of this project. It gets a database of its own in the same embedded
Postgres, stores the same memories by its own public call, and searches them by its own public
call, within its own process: it pays neither for gRPC nor for authentication. Our service answers
over gRPC, with authentication, in the same run. A peer that cannot be installed or started is
reported with the reason.

`stores` runs with a peer's own Python, and needs the standard library and that peer only.
"""
