"""Who is calling and what may they do: a frozen principal from a credential, rules from the protos.

The tenant comes from the credential and never from a request.
"""
