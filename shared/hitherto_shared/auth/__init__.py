"""Authentication and authorisation: an immutable principal, and rules from the protos.

The tenant comes from the credential and never from a request.
"""
