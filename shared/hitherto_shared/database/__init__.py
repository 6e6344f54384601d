"""The way to Postgres: embedded server, roles, migrations, connections. No query lives here."""
