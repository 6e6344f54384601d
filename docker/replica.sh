#!/usr/bin/env bash
# The read replica of docker-compose.yml: copies the primary once, then streams from it.
set -euo pipefail

if [[ $(id -u) -eq 0 ]]; then
    chown postgres:postgres "$PGDATA"
    chmod 0700 "$PGDATA"
    exec gosu postgres bash "$0"
fi

# The marker is written last: a copy that was cut off is made again.
if [[ ! -f "$PGDATA/copied" ]]; then
    find "$PGDATA" -mindepth 1 -delete
    pg_basebackup --pgdata "$PGDATA" --host postgres --username hitherto_replication \
        --slot hitherto_replica --wal-method stream --checkpoint fast --write-recovery-conf --progress
    touch "$PGDATA/copied"
fi
exec postgres -c hot_standby=on -c hot_standby_feedback=on -c log_error_verbosity=terse \
    -c log_min_messages=log -c log_min_error_statement=panic
