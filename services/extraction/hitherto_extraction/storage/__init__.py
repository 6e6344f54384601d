"""The write side's SQL: one function per statement, on a connection the caller owns.

A function never opens a transaction; it takes the caller's connection, so that whoever calls
decides what commits together. Each names the tenant and the user of its `Scope`. Times come from
the database.
"""
