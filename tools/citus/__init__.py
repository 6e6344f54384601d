"""`make check-citus`: whether schema and statements suit a Postgres that distributes rows by user.

`schema_rules` looks at the tables of a migrated database, `routes` at every statement of both
services. Both work on any Postgres, and `routes` asks Citus for its plans where there is Citus.
"""
