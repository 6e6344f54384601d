"""gRPC for both services: the order of checks, error statuses, serving and draining.

A call passes, in this order: request id, authentication, access rule, decoding, the caller's own
user, the handler; whatever any of them raises becomes one status with details.
"""
