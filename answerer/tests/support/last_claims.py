"""The last lists, written against the finished checks: lies of every kind, and claims as a model words them."""

LAST_LIES: dict[str, list[tuple[int, str]]] = {
    "postgresql/connections-exhausted": [
        (9, "Standbys can be changed before the primary."),
        (9, "Standbys need not be changed before the primary."),
        (5, "Agree with the owning team after the scale down."),
        (4, "It touches sessions which did nothing for less than ten minutes."),
        (7, "The limit does not protect the other services."),
        (6, "Raise the pool although step 2 left no room."),
        (3, "One service with hundreds of sessions is never the leak."),
        (8, "Never set `idle_in_transaction_session_timeout`."),
        (8, "Do not run `SELECT pg_reload_conf();`."),
        (1, "Do not use the local socket."),
        (9, "Restart with `pg_ctl -D $PGDATA restart`."),
        (9, "Restart with `pg_ctl restart -m fast`."),
        (
            9,
            'Run `pg_ctl -D $PGDATA restart -m fast` before `psql -U postgres -c "ALTER SYSTEM SET max_connections = 400"`.',
        ),
    ],
    "redis/aof-corrupted": [
        (3, "You may copy the files after the change."),
        (5, "Run it with no copy."),
        (7, "The pod gets at least 20 minutes."),
    ],
    "postgresql/disk-full-pg-wal": [
        (1, "Data, WAL and temporary tablespaces must be on different mounts."),
        (8, "Do it before the archiver is fixed."),
    ],
    "redis/rdb-save-failing": [
        (4, "The value can be 1."),
        (7, "Use `BGSAVE` or `SAVE`."),
        (6, "Undo it in step 2."),
        (3, "Remove `temp-*.rdb` leftovers even while a save is running."),
    ],
    "mongodb/replica-set-no-primary": [
        (1, "A majority of all members is needed: 1 of 3."),
        (4, "A set with only `priority: 0` members has a candidate."),
        (8, "A primary without a replicating secondary accepts all writes."),
        (6, "Writes that only the lost members had are kept."),
    ],
    "mysql/replication-lag": [(3, "Do not wait for it."), (6, "Keep durability on the replica.")],
}

LAST_TRUE: dict[str, list[tuple[int, str]]] = {
    "postgresql/connections-exhausted": [
        (2, "Count the sessions against the limit; if `used` is close to `max`, go on with step 3."),
        (2, "If it is far below, go to step 6."),
        (3, "Find out who holds the connections: one service or host with hundreds of sessions is usually the leak."),
        (4, "Terminate abandoned sessions. This is destructive for the clients: uncommitted work is rolled back."),
        (
            5,
            "Throttle the service that leaks with `kubectl -n $NAMESPACE scale deployment/<app> --replicas=2`, after agreeing with the owning team.",
        ),
        (
            6,
            'Run `psql -h <pgbouncer-host> -p 6432 -U pgbouncer pgbouncer -c "SHOW POOLS"` to inspect the PgBouncer pools.',
        ),
        (9, "Restart PostgreSQL with `pg_ctl -D $PGDATA restart -m fast`."),
        (8, "Run `SELECT pg_reload_conf();` afterwards."),
    ],
    "redis/rdb-save-failing": [
        (1, "Check whether `rdb_last_bgsave_status` is `err`."),
        (
            2,
            "Look for the reason in the log with `kubectl -n $NAMESPACE logs <redis-pod> --tail=200 | grep -iE 'save|fork|rdb|error'`.",
        ),
        (3, "Make room on the data volume: there must be space for a second copy."),
        (3, "If there is not enough space, extend the volume."),
        (6, "Accept writes in the meantime with `CONFIG SET stop-writes-on-bgsave-error no`, and undo it in step 8."),
        (6, "Risk: data written now is lost if the process dies before the next good save."),
        (7, "Run `BGSAVE` once by hand to prove that the cause is gone."),
    ],
    "redis/maxmemory-oom": [
        (3, "Raise maxmemory with `redis-cli -h <redis-host> CONFIG SET maxmemory 12gb` if the host has room."),
        (7, "Reduce fragmentation online by setting `activedefrag` to yes."),
        (8, "Ask the owner whether every key can be rebuilt."),
    ],
    "mysql/binlog-disk-full": [
        (2, "Check which binary logs the replicas still need."),
        (3, "Purging is destructive: point-in-time recovery before that file needs the backup copies."),
        (4, "Rotated error logs and slow query logs are safe to delete."),
    ],
    "postgresql/failover-promote-standby": [
        (2, "Take the standby with the highest receive LSN."),
        (
            4,
            'Promote the standby with `psql -h <replica-host> -U postgres -c "SELECT pg_promote(wait => true, wait_seconds => 60)"`.',
        ),
        (5, "Send `RECONNECT` to PgBouncer so that poolers drop their old server connections."),
        (6, "Check that writes work on the new primary."),
    ],
    "mongodb/disk-full": [
        (2, "Delete old server logs with `find /var/log/mongodb -name 'mongod.log.*' -mtime +2 -delete`."),
        (5, "Compact one secondary after the other."),
        (1, "If less than 5 % is free, tell the incident channel and stop bulk writers."),
    ],
    "postgresql/lock-contention": [
        (5, "Cancel the blocker first with `SELECT pg_cancel_backend(<pid>);`."),
        (5, "Only if the cancel did not help, terminate it with `SELECT pg_terminate_backend(<pid>);`."),
    ],
}
