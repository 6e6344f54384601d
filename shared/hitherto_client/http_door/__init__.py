"""Every RPC over HTTP with JSON, by the Connect protocol: for whatever has no gRPC.

The door is a client of both services. What it serves follows from the descriptors of the contract,
so that no RPC has a line of its own here. What is wrong with a request raises ConnectError;
ClientGone ends what nobody waits for any more. Needs the extra `http`.
"""
