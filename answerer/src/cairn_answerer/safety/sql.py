"""SQL statements of PostgreSQL and MySQL: by first keyword, by the functions they call, by a missing WHERE."""

from __future__ import annotations

import re

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety, worst
from cairn_answerer.safety.sql_functions import unknown_functions
from cairn_answerer.words import word_set

_COMMENT = re.compile(r"--[^\n]*|/\*(?!!).*?\*/", re.DOTALL)
_EXECUTED_COMMENT = re.compile(r"/\*!\d*(.*?)\*/", re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*'|\$\$.*?\$\$", re.DOTALL)
_QUOTED_NAME = re.compile(r'"[^"]*"|`[^`]*`')
_WORD = re.compile(r"[A-Za-z_]+")
_DESTRUCTIVE_FUNCTIONS = re.compile(
    r"\b(?:pg_terminate_backend|pg_drop_replication_slot|pg_replication_origin_drop|pg_replication_slot_advance|lo_unlink"
    r"|pg_file_unlink|drop_chunks|rds_kill|rds_kill_query)\s*\(",
    re.IGNORECASE,
)
_RUNS_ITS_STRINGS = re.compile(
    r"^\s*(?:do|prepare|execute)\b|\b(?:query_to_xml\w*|cursor_to_xml\w*|dblink\w*|crosstab\w*|ts_stat|pg_background_launch"
    r"|schedule|schedule_in_database|run_command_on_\w+)\s*\(|\\gexec\b",
    re.IGNORECASE,
)
"""What runs text: `DO`, `query_to_xml('delete ...')`, `SELECT 'DROP ...' \\gexec`."""

_META_WRITES = re.compile(r"\\(?:gexec|g[x]?\s+\S|!|o\b|w\b|i[r]?\b|copy|\.)")
_EXPLAINS = re.compile(r"(?:explain|describe|desc)\s+(?:(?:verbose|extended|format\s*=\s*\w+)\s+)*", re.IGNORECASE)
_RUNS_WHAT_IT_EXPLAINS = re.compile(r"\([^)]*\banaly[sz]e\b[^)]*\)|analy[sz]e\b", re.IGNORECASE)
_EXPLAIN_OPTIONS = re.compile(r"\s*(?:(?:verbose|format\s*=\s*\w+)\s+)*", re.IGNORECASE)
_WRITES_INSIDE = re.compile(
    r"\b(?:insert\s+into|(?<!for )(?<!key )update\s+\w|merge\s+into|into\s+(?:outfile|dumpfile))", re.IGNORECASE
)
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
    r"\\(?:d\S*|l\+?|z|c|connect|conninfo|x|timing|watch|q|h|\?|pset|g[x]?|echo|encoding|s[fv]?|G|prompt|set|errverbose)\b.*",
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
    """The most dangerous statement in `text`, and in the strings that it runs as statements."""
    text = _EXECUTED_COMMENT.sub(r" \1 ", text)
    text = _COMMENT.sub(" ", text)
    bare = _QUOTED_NAME.sub('"', _STRING.sub("''", text))
    levels = [_statement(statement.strip()) for statement in bare.split(";") if statement.strip()]
    if any(_RUNS_ITS_STRINGS.search(statement) for statement in bare.split(";")):
        inside = [string.strip("'$") for string in _STRING.findall(text)]
        levels += [worst([CHANGES, _inside(string), _destroys(string)]) for string in inside] or [CHANGES]
    return worst(levels)


def _destroys(string: str) -> Safety:
    return DESTRUCTIVE if _first_word(string.strip()) in _DESTROYS else READ_ONLY


def _first_word(text: str) -> str:
    return (_WORD.match(text) or [""])[0].upper()


def _statement(text: str) -> Safety:  # noqa: PLR0911 - a table with conditions
    if text.startswith("\\"):
        return CHANGES if _META_WRITES.match(text) or not _META_READS.fullmatch(text) else READ_ONLY
    word = _first_word(text)
    inside = _inside(text)
    if word in _DESTROYS:
        return DESTRUCTIVE
    if word == "UPDATE" and not re.search(r"\bwhere\b", text, re.IGNORECASE):
        return DESTRUCTIVE
    if word == "ALTER":
        return worst([CHANGES, DESTRUCTIVE if _ALTER_DROPS.search(text) else CHANGES])
    if word == "RESET":
        return DESTRUCTIVE if re.match(r"reset\s+(?:master|slave|replica|binary)", text, re.IGNORECASE) else CHANGES
    if word == "CLONE":
        # MySQL's clone first drops everything that the recipient holds.
        return DESTRUCTIVE if re.match(r"clone\s+instance", text, re.IGNORECASE) else CHANGES
    if explains := _EXPLAINS.match(text):
        return _explained(text[explains.end() :])
    if word == "START":
        return READ_ONLY if re.match(r"start\s+transaction", text, re.IGNORECASE) else CHANGES
    if word in ("COMMIT", "ROLLBACK") and re.match(r"\w+\s+prepared\b", text, re.IGNORECASE):
        return CHANGES
    if word == "COPY":
        return worst([inside, READ_ONLY if re.search(r"\bto\s+stdout\b", text, re.IGNORECASE) else CHANGES])
    if word in ("VACUUM", "GRANT", "REVOKE"):
        return CHANGES
    if word in _READS:
        return inside
    return worst([CHANGES, inside])


def _explained(text: str) -> Safety:
    """EXPLAIN only plans; with ANALYZE it carries the statement out, whatever that is."""
    runs = _RUNS_WHAT_IT_EXPLAINS.match(text)
    if not runs:
        return READ_ONLY
    rest = text[runs.end() :]
    options = _EXPLAIN_OPTIONS.match(rest)
    return _statement(rest[options.end() if options else 0 :]) if rest.strip() else READ_ONLY


def _inside(text: str) -> Safety:
    if _DESTRUCTIVE_FUNCTIONS.search(text) or _DELETES_INSIDE.search(text):
        return DESTRUCTIVE
    if _WRITES_INSIDE.search(text) or _LOCKS.search(text) or _META_WRITES.search(text):
        return CHANGES
    return CHANGES if next(unknown_functions(text), None) else READ_ONLY
