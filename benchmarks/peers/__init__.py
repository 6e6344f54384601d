"""The same searches in other memory stores: on the same data, Postgres and embeddings endpoint.

    python -m benchmarks.peers [--sizes 200,2000] [--seconds 5] [--only mem0ai] [--json FILE]

Each peer is installed from the package index into an environment of its own that is removed with
the run; none is a dependency of this project. It gets a database of its own in the same embedded
Postgres, stores the same memories by its own public call, and searches them by its own public
call, within its own process: it pays neither for gRPC nor for authentication. Our service answers
over gRPC, with authentication, in the same run. A peer that cannot be installed or started is
reported with the reason.

The modules: `running` (the peers, a peer's process, ratios and bars), `measuring` (a run); `loop`
(what all peers' processes share, of the standard library only), `mem0_peer` and `langgraph_peer`
(run with the peer's own Python).
"""
