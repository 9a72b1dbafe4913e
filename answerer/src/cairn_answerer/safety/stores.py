"""Commands of Redis and of the MongoDB shell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety, worst
from cairn_answerer.words import word_set

_REDIS_READS = word_set(
    "GET MGET GETRANGE STRLEN EXISTS TTL PTTL EXPIRETIME TYPE KEYS SCAN RANDOMKEY DBSIZE INFO PING ECHO TIME "
    "ROLE LASTSAVE MONITOR LLEN LRANGE LINDEX LPOS HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSCAN SCARD "
    "SMEMBERS SISMEMBER SSCAN ZCARD ZRANGE ZREVRANGE ZRANGEBYSCORE ZSCORE ZRANK ZCOUNT ZSCAN XLEN XRANGE "
    "XREVRANGE XINFO XPENDING XREAD PFCOUNT BITCOUNT OBJECT DUMP COMMAND LOLWUT WAIT HELLO AUTH SELECT QUIT "
    "SUBSCRIBE PSUBSCRIBE PUBSUB TOUCH GEOPOS EVAL_RO EVALSHA_RO FCALL_RO SORT_RO"
)
_REDIS_DESTROYS = word_set(
    "FLUSHALL FLUSHDB DEL UNLINK GETDEL SHUTDOWN DEBUG XTRIM XDEL LTRIM LREM SREM HDEL ZREM ZREMRANGEBYSCORE "
    "ZREMRANGEBYRANK LPOP RPOP SPOP ZPOPMIN ZPOPMAX RESTORE"
)
_REDIS_SUB_READS = {
    "CONFIG": word_set("GET HELP"),
    "CLIENT": word_set("GETNAME HELP ID INFO LIST"),
    "CLUSTER": word_set("COUNTKEYSINSLOT GETKEYSINSLOT INFO KEYSLOT LINKS MYID NODES REPLICAS SHARDS SLOTS"),
    "SLOWLOG": word_set("GET HELP LEN"),
    "LATENCY": word_set("DOCTOR GRAPH HELP HISTOGRAM HISTORY LATEST"),
    "MEMORY": word_set("DOCTOR HELP MALLOC-STATS STATS USAGE"),
    "SENTINEL": word_set("CKQUORUM GET-MASTER-ADDR-BY-NAME MASTER MASTERS PENDING-SCRIPTS REPLICAS SENTINELS SLAVES"),
    "ACL": word_set("CAT GENPASS GETUSER LIST LOG USERS WHOAMI"),
    "SCRIPT": word_set("EXISTS"),
    "MODULE": word_set("LIST"),
    "FUNCTION": word_set("DUMP LIST STATS"),
}
_REDIS_SUB_DESTROYS = {
    "CLIENT": word_set("KILL"),
    "CLUSTER": word_set("DELSLOTS DELSLOTSRANGE FLUSHSLOTS FORGET RESET"),
    "SENTINEL": word_set("REMOVE RESET"),
    "SCRIPT": word_set("FLUSH KILL"),
    "FUNCTION": word_set("DELETE FLUSH KILL"),
    "ACL": word_set("DELUSER"),
}
_REDIS_MODES = word_set(
    "--bigkeys --memkeys --hotkeys --latency --latency-history --latency-dist --intrinsic-latency --stat "
    "--scan --ls --version --help"
)
_REDIS_VALUED = word_set(
    "-h -p -a -n -u -s -r -i -t --user --pass --cacert --cert --key --sni --pattern --count --rdb "
    "--tls-ciphers"
)  # fmt: skip
_REDIS_CLUSTER_READS = frozenset({"check", "info", "help"})


_LUA_CALL = re.compile(r"redis\.p?call\(\s*['\"]?(\w+)['\"]?(?:\s*,\s*['\"](\w+))?", re.IGNORECASE)


def classify_redis(words: Sequence[str], fed: bool = False) -> Safety:
    """The words after `redis-cli`, or of a line typed into it. `fed`: it reads its commands from something else."""
    if "--cluster" in words:
        place = words.index("--cluster")
        action = words[place + 1] if place + 1 < len(words) else ""
        return (
            READ_ONLY
            if action in _REDIS_CLUSTER_READS
            else DESTRUCTIVE
            if action in ("del-node", "import")
            else CHANGES
        )
    rest: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif not rest and word in _REDIS_MODES:
            return READ_ONLY
        elif not rest and word in ("--pipe", "--eval", "--rdb", "--functions-rdb"):
            return CHANGES
        elif not rest and word.startswith("-"):
            skip = word in _REDIS_VALUED
        else:
            rest.append(word.upper())
    if not rest:
        return CHANGES if fed else READ_ONLY  # an interactive session
    return _redis(rest)


def classify_typed_redis(text: str) -> Safety:
    """Lines as they are typed into redis-cli."""
    return worst(classify_redis(line.split()) for line in text.splitlines() if line.strip())


def _redis(words: Sequence[str]) -> Safety:
    command, sub = words[0], words[1] if len(words) > 1 else ""
    if command in ("REPLICAOF", "SLAVEOF"):
        # A server that becomes a replica throws its own data away; one that stops being one takes writes of its own,
        # and either those or the old primary's are lost when the two are joined again.
        return DESTRUCTIVE
    if command in ("EVAL", "EVALSHA", "FCALL"):
        calls = _LUA_CALL.findall(" ".join(words))
        return worst([CHANGES, _named(words), *(_redis([name.upper(), other.upper()]) for name, other in calls)])
    if command == "CLUSTER" and sub == "FAILOVER":
        return DESTRUCTIVE if {"FORCE", "TAKEOVER"} & set(words) else CHANGES
    return _named(words)


def _named(words: Sequence[str]) -> Safety:
    command, sub = words[0], words[1] if len(words) > 1 else ""
    if command in _REDIS_DESTROYS or sub in _REDIS_SUB_DESTROYS.get(command, ()):
        return DESTRUCTIVE
    if command == "ACL" and list(words[1:3]) == ["LOG", "RESET"]:
        return CHANGES
    if command in _REDIS_READS or sub in _REDIS_SUB_READS.get(command, ()):
        return READ_ONLY
    return CHANGES


def looks_like_redis(text: str) -> bool:
    """`text` begins like a command with a subcommand, or is one of those that only Redis has, in capitals."""
    words = text.split()
    if len(words) < 2 or not words[0].isupper():
        return False
    subcommands = _REDIS_SUB_READS.get(words[0], frozenset()) | _REDIS_SUB_DESTROYS.get(words[0], frozenset())
    more = words[0] in ("CONFIG", "CLIENT", "CLUSTER", "SENTINEL", "SLOWLOG", "ACL") and words[1].isupper()
    return (
        words[1] in subcommands
        or more
        or words[0] in ("REPLICAOF", "SLAVEOF", "FLUSHDB", "FLUSHALL", "UNLINK", "DEL", "HGETALL")
    )


_CALL = re.compile(r"\.?\b([A-Za-z_]\w*)\s*\(")
_COMMAND = re.compile(r"\b(?:adminCommand|runCommand)\s*\(\s*\{?\s*[\"']?(\w+)")
_SHOW = re.compile(r"\s*(?:show\s+\w+|use\s+[\w$-]+|exit|quit|it|help)\s*;?\s*", re.IGNORECASE)
_CHANGES_ANYWHERE = re.compile(r"\$(?:out|merge)\b|\brepair[\"']?\s*:\s*(?:true|1)\b|\]\s*\(")
_FORCED = re.compile(r"\bforce[\"']?\s*:\s*(?:true|1)\b|\breconfigForPSASet\b")
_NOT_SEEN = re.compile(r"=|^\s*(?:SUBSTITUTION|PLACEHOLDER|\$)")
"""A script without a call that does something nevertheless, or is not written here: `--eval "$(cat x.js)"`."""

_MONGO_DESTROYS = re.compile(
    r"(?:drop\w*|deleteOne|deleteMany|remove\w*|findOneAndDelete|shutdownServer|killOp|killAllSessions\w*|killSessions"
    r"|convertToCapped|cleanupOrphaned|emptycapped|shutdown|delete|logRotateAndDelete|resizeOplogAndTruncate)"
)
_MONGO_READS = re.compile(
    r"(?:find|findOne|aggregate|count\w*|distinct|explain|stats|dataSize|storageSize|totalSize|totalIndexSize|status|conf"
    r"|config|hello|isMaster|serverStatus|currentOp|hostInfo|buildInfo|version|get[A-Z]\w*|list[A-Z]\w*|print\w*|pretty|sort"
    r"|limit|skip|project|toArray|forEach|map|filter|reduce|slice|sum|match|hint|maxTimeMS|readPref|itcount|hasNext|next|ping"
    r"|validate|latencyStats|indexStats|help|tojson|JSON|stringify|parse|Date|ISODate|ObjectId|NumberLong|NumberInt|Timestamp"
    r"|Object|keys|values|entries|length|push|join|toString|toFixed|round|floor|Number|parseInt|db|secondaryOk|connPoolStats"
    r"|replSetGetStatus|replSetGetConfig|dbStats|collStats|top|getParameter|getCmdLineOpts|dataAge|startsWith|includes|test"
    r"|getSiblingDB|adminCommand|runCommand|function|if|for|while|Math|max|min|sharding\w*|isBalancerRunning|connectionStatus"
    r"|rolesInfo|usersInfo|whatsmyuri|features|log|abs|setReadPref|lockInfo|serverInfo|balancerStatus|balancerCollectionStatus)"
)


def classify_mongo(script: str) -> Safety:
    """JavaScript for mongosh: by the methods and database commands that it names."""
    if _SHOW.fullmatch(script):
        return READ_ONLY
    levels = [_mongo(name) for name in _CALL.findall(script)]
    levels += [_mongo(name) for name in _COMMAND.findall(script)]
    if _CHANGES_ANYWHERE.search(script):
        levels.append(CHANGES)
    level = worst(levels) if levels else CHANGES if _NOT_SEEN.search(script) else READ_ONLY
    # A forced reconfiguration rolls back what only the left out members have.
    return DESTRUCTIVE if level != READ_ONLY and _FORCED.search(script) else level


def _mongo(name: str) -> Safety:
    if _MONGO_DESTROYS.fullmatch(name):
        return DESTRUCTIVE
    return READ_ONLY if _MONGO_READS.fullmatch(name) else CHANGES
