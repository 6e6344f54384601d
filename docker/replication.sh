#!/usr/bin/env bash
# Lets postgres-replica stream from this server. The image runs it once, when it creates the database.
set -euo pipefail

psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$REPLICATION_PASSWORD" <<'SQL'
CREATE ROLE hitherto_replication LOGIN REPLICATION PASSWORD :'password';
SELECT pg_create_physical_replication_slot('hitherto_replica');
-- A replica that is gone for long must not fill the disk; docs/docker.md says how to copy it anew.
ALTER SYSTEM SET max_slot_wal_keep_size = '8GB';
SQL
echo "host replication hitherto_replication all scram-sha-256" >>"$PGDATA/pg_hba.conf"
