"""SQL statements of PostgreSQL and MySQL: by first keyword, by functions with side effects, by a missing WHERE."""

from __future__ import annotations

import re

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety, worst
from cairn_answerer.words import word_set

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*'|\$\$.*?\$\$", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]+")
_DESTRUCTIVE_FUNCTIONS = re.compile(
    r"\b(?:pg_terminate_backend|pg_drop_replication_slot|pg_replication_origin_drop|pg_replication_slot_advance|lo_unlink"
    r"|pg_file_unlink|dblink_exec|drop_chunks|rds_kill|rds_kill_query)\s*\(",
    re.IGNORECASE,
)
_CHANGING_FUNCTIONS = re.compile(
    r"\b(?:pg_cancel_backend|pg_reload_conf|pg_rotate_logfile|pg_switch_wal|pg_switch_xlog|pg_promote|pg_create_\w+"
    r"|pg_copy_\w+_slot|pg_wal_replay_(?:pause|resume)|pg_backup_(?:start|stop)|pg_start_backup|pg_stop_backup"
    r"|pg_logical_emit_message|pg_advisory_\w*lock\w*|pg_stat_reset\w*|pg_stat_statements_reset|pg_replication_\w+_setup"
    r"|pg_repack\w*|pg_prewarm|set_config|setval|nextval|lo_\w+|get_lock|release_lock|load_file|sleep|benchmark)\s*\(",
    re.IGNORECASE,
)
_WRITES_INSIDE = re.compile(r"\b(?:insert\s+into|update\s+\w|merge\s+into|into\s+(?:outfile|dumpfile))", re.IGNORECASE)
_DELETES_INSIDE = re.compile(r"\b(?:delete\s+from|truncate|drop\s+(?:table|database|schema|index))\b", re.IGNORECASE)
_LOCKS = re.compile(r"\bfor\s+(?:no\s+key\s+)?(?:update|share)\b|\binto\s+\w", re.IGNORECASE)
_ALTER_DROPS = re.compile(r"\b(?:drop|truncate|discard|exchange)\b", re.IGNORECASE)

_READS = word_set(
    "SELECT SHOW EXPLAIN DESCRIBE DESC VALUES TABLE WITH USE BEGIN START COMMIT ROLLBACK END ABORT SAVEPOINT "
    "RELEASE FETCH DECLARE CLOSE LISTEN UNLISTEN HELP STATUS CHECKSUM CHECK"
)
_DESTROYS = frozenset(["DROP", "TRUNCATE", "DELETE", "PURGE", "KILL", "SHUTDOWN"])
_STATEMENTS = (
    _READS
    | _DESTROYS
    | word_set(
        "INSERT UPDATE MERGE REPLACE ALTER CREATE GRANT REVOKE VACUUM ANALYZE REINDEX CLUSTER CHECKPOINT LOCK "
        "UNLOCK COPY SET RESET CALL DO FLUSH OPTIMIZE REPAIR CHANGE STOP LOAD RENAME COMMENT REFRESH NOTIFY "
        "PREPARE EXECUTE DEALLOCATE DISCARD REASSIGN SECURITY INSTALL UNINSTALL CLONE BINLOG"
    )
)
_SHORT = frozenset(["SHOW", "KILL", "VACUUM", "ANALYZE", "REINDEX"])
_META_READS = re.compile(
    r"\\(?:[dlzc]\S*|conninfo|x|timing|watch|q|h|\?|pset|g[x]?|echo|encoding|s[fv]?|G|prompt|set|errverbose)\b.*",
    re.DOTALL,
)


def looks_like_sql(text: str) -> bool:
    """`text` begins like a statement: a keyword in capitals, or a keyword and enough words after it."""
    words = _WORD.findall(text[:200])
    if not words or words[0].upper() not in _STATEMENTS:
        return False
    count = len(text.split())
    if words[0].isupper():
        return count > 2 or (count == 2 and (words[0] in _SHORT or text.endswith(";")))
    return count > 3 and words[0].upper() in ("SELECT", "DELETE", "UPDATE", "INSERT")


def classify_sql(text: str) -> Safety:
    """The most dangerous statement in `text`."""
    bare = _STRING.sub("''", _COMMENT.sub(" ", text))
    return worst(_statement(statement.strip()) for statement in bare.split(";") if statement.strip())


def _statement(text: str) -> Safety:  # noqa: PLR0911 - a table with conditions
    if text.startswith("\\"):
        return READ_ONLY if _META_READS.fullmatch(text) else CHANGES
    word = (_WORD.match(text) or [""])[0].upper()
    inside = _inside(text)
    if word in _DESTROYS:
        return DESTRUCTIVE
    if word == "UPDATE" and not re.search(r"\bwhere\b", text, re.IGNORECASE):
        return DESTRUCTIVE
    if word == "ALTER":
        return worst([CHANGES, DESTRUCTIVE if _ALTER_DROPS.search(text) else CHANGES])
    if word == "RESET":
        return DESTRUCTIVE if re.match(r"reset\s+(?:master|slave|replica|binary)", text, re.IGNORECASE) else CHANGES
    if word == "EXPLAIN":
        runs = re.match(r"explain\s*(?:\([^)]*\banaly[sz]e\b|analy[sz]e\b)", text, re.IGNORECASE)
        return inside if runs else READ_ONLY
    if word == "START":
        return READ_ONLY if re.match(r"start\s+transaction", text, re.IGNORECASE) else CHANGES
    if word == "COPY":
        return READ_ONLY if re.search(r"\bto\s+stdout\b", text, re.IGNORECASE) else CHANGES
    if word in ("VACUUM", "GRANT", "REVOKE"):
        return CHANGES
    if word in _READS:
        return inside
    return worst([CHANGES, inside])


def _inside(text: str) -> Safety:
    if _DESTRUCTIVE_FUNCTIONS.search(text) or _DELETES_INSIDE.search(text):
        return DESTRUCTIVE
    if _CHANGING_FUNCTIONS.search(text) or _WRITES_INSIDE.search(text) or _LOCKS.search(text):
        return CHANGES
    return READ_ONLY
