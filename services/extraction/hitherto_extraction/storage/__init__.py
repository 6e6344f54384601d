"""The SQL of the write side: one function per statement, on a connection that the caller owns.

A function never opens a transaction, so that the caller decides what commits together. Each
statement names the tenant and the user of its `Scope`. Times come from the database.
"""
