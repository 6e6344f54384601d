"""Access to Postgres: embedded server, roles, migrations, connections. It has no queries."""
