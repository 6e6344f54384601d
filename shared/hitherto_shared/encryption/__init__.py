"""Envelope encryption: a data key per user, wrapped by the installation's key-encryption key.

`wrapping` knows the key-encryption key, `key_store` keeps the wrapped keys of users outside the
database, `user_keys` opens, makes and erases them, `sealed` seals what a row holds, and `places`
names the row that a sealed value belongs to.
"""
