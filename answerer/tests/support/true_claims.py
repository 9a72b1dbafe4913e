"""Other words for what the cited step of a demo runbook says. Written before the checks that must keep them."""

TRUE_CLAIMS: dict[str, list[tuple[int, str]]] = {
    "postgresql/connections-exhausted": [
        (1, "Use the local socket; it avoids the pooler."),
        (1, "If even that is refused, first stop one application deployment (step 5)."),
        (1, "Get in through a slot reserved for superusers."),
        (2, "Count the sessions against the limit."),
        (3, "If most sessions are `idle`, a pool is too large or leaks."),
        (4, "Terminate abandoned sessions; uncommitted work in them is rolled back."),
        (4, "Only sessions that did nothing for 10 minutes are touched."),
        (4, "If the number climbs back within a minute, go to step 5."),
        (5, "Scale the leaking service down with `kubectl -n $NAMESPACE scale deployment/<app> --replicas=2`."),
        (5, "Agree with the owning team first, because it cuts capacity."),
        (6, "Raise the pool only when step 2 left room."),
        (7, "Cap the offender at 60 connections with `ALTER ROLE <app_role> CONNECTION LIMIT 60;`."),
        (7, "The limit only applies to new sessions."),
        (8, "Set `idle_in_transaction_session_timeout` to `5min`."),
        (8, "Set `idle_in_transaction_session_timeout` to 5min so that the server reaps idle sessions."),
        (8, "Set idle_in_transaction_session_timeout to 5 minutes."),
        (8, "Do not set `idle_session_timeout` for roles used by a pooler."),
        (9, "Increase max_connections only if nothing else helps."),
        (9, "Change the standbys before the primary, or they refuse to start."),
        (9, "Raising it needs a restart, which means downtime, and 5 to 10 MB of memory per backend."),
    ],
    "postgresql/failover-promote-standby": [
        (1, "Make sure the primary is really gone; probe it from two places."),
        (1, "During crash recovery, wait up to 5 minutes before a failover."),
        (2, "Choose the standby that received the most WAL."),
        (
            3,
            (
                "Fence the old primary with `kubectl -n $NAMESPACE scale statefulset/<old-primary-sts> --replicas=0` "
                "so that it cannot accept writes."
            ),
        ),
        (3, "Continue only if the pod is gone."),
        (4, "Promote the chosen standby; this cannot be undone."),
        (4, "Promotion is not reversible."),
        (5, "Point the service at the promoted pod."),
        (8, "Never start the old primary unchanged."),
    ],
    "redis/rdb-save-failing": [
        (1, "`rdb_last_bgsave_status:err` confirms this runbook."),
        (3, "Remove only `temp-*.rdb` leftovers, and only while no save is running."),
        (3, "At least the size of `dump.rdb` must be free."),
        (4, "Set the value to 1 on the node as root; Redis needs no restart."),
        (5, "If you see `/root/.ssh`, stop and call security."),
        (6, "What is written now is lost if the process dies before the next good save."),
        (7, "Use `BGSAVE`, not `SAVE`, because `SAVE` blocks all clients."),
        (8, "Restore the safety setting with `CONFIG SET stop-writes-on-bgsave-error yes`."),
    ],
    "redis/max-clients-reached": [
        (2, "Raise the limit with `CONFIG SET maxclients 20000`."),
        (4, "Close idle connections automatically; pub/sub and replicas are not touched."),
        (5, "Kill the connections of the offender; its running commands are lost."),
        (6, "Pool size times pods must stay below 60 % of `maxclients`."),
    ],
    "redis/maxmemory-oom": [
        (3, "Leave 30 % of the RAM for the fork and for buffers."),
        (4, "Report the key name to its owner before removing anything."),
        (5, "Delete the offender with `UNLINK`, which frees memory in the background."),
        (6, "Drop the clients with huge output buffers; they have to reconnect."),
    ],
    "redis/aof-corrupted": [
        (3, "Copy the files before changing anything."),
        (4, "Damage at the end is harmless."),
        (5, "Everything after the first bad offset is cut off."),
        (8, "Delete the `.broken` copies after a week."),
    ],
    "redis/sentinel-failover": [
        (3, "The best candidate is the replica with the highest offset and a priority above 0."),
        (5, "Make sure the old master is stopped."),
        (6, "Save its snapshot first, because the full sync empties it."),
    ],
    "redis/cluster-slots-down": [
        (4, "Try `FORCE` first."),
        (4, "Writes that the replica did not receive are lost."),
    ],
    "mysql/too-many-connections": [
        (4, "Kill sleeping sessions; open transactions are rolled back."),
        (4, "Review the `KILL` commands before running them."),
        (6, "The new limit takes effect at once without a restart."),
    ],
    "mysql/replication-lag": [
        (3, "Wait for a big transaction; stopping would roll it back."),
        (6, "Relax durability on the replica, never on the source."),
    ],
    "mysql/binlog-disk-full": [
        (3, "Never delete the files with `rm`."),
        (3, "Purge old binary logs with `PURGE BINARY LOGS TO 'binlog.000470';`."),
        (7, "`DROP` and `TRUNCATE` cannot be undone."),
    ],
    "mysql/restore-point-in-time": [
        (1, "Lock the account instead of stopping the server, so you can still read."),
        (5, "The target data directory must be empty and must not be production."),
    ],
    "mongodb/disk-full": [
        (2, "Remove old server logs, but never touch `*.wt` or `journal/`."),
        (4, "Drop disposable collections only with the owner's consent."),
        (7, "Grow the volume, secondaries first; this cannot be undone."),
        (8, "Do not use `--repair` on a replica set member."),
    ],
    "mongodb/replica-set-no-primary": [
        (6, "Switch the lost hosts off first."),
        (7, "Run `stepDown` on the current primary and `freeze` on the sick secondary."),
    ],
    "postgresql/disk-full-pg-wal": [
        (2, "Never delete files in pg_wal by hand."),
        (7, "Truncate only tables whose owner agreed."),
        (8, "Force a checkpoint after the archiver or slot is fixed."),
    ],
    "postgresql/lock-contention": [
        (5, "Cancel first, because it only ends the statement."),
        (4, "Cancelling the waiting DDL releases the traffic at once."),
    ],
    "postgresql/slow-queries": [
        (5, "A plain `VACUUM` is online, but `VACUUM FULL` locks the table."),
        (6, "Add the missing index with `CONCURRENTLY`, which does not block writes."),
        (8, "Do not set it globally, because it would also hit backups and migrations."),
    ],
}
