"""Envelope encryption: a data key per user, wrapped by the installation's key-encryption key.

`wrapping` knows the key-encryption key, `key_store` keeps the wrapped keys of users outside the
database, `user_keys` opens, makes and erases them, `user_key` seals values with one of them, and
`rows` names the columns that are sealed and the place of their row.
"""
