"""Plain Unix programs: by name, and by the flags that turn a look into a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety
from cairn_answerer.words import word_set

READS = word_set(
    "find sed ip "
    "ls ll dir cat tac less more head tail grep egrep fgrep zgrep zcat rg ag awk gawk cut tr sort uniq wc nl "
    "column paste join comm df du free top htop atop btop ps pstree pgrep pidof uptime w who whoami id groups "
    "last lastlog uname hostname hostnamectl vmstat iostat mpstat pidstat sar dstat nstat netstat ss lsof "
    "fuser dig nslookup host ping ping6 traceroute tracepath mtr whois stat file readlink realpath basename "
    "dirname which whereis type command locate tree pwd cd echo printf true false test [ : date cal sleep seq "
    "env printenv export set unset alias exit return read shopt ulimit [[ getent jq yq xq xmllint dmesg "
    "lsblk blkid lscpu lsmod lspci lsusb lsmem lshw dmidecode nproc findmnt numactl smartctl ethtool arp "
    "openssl sha256sum sha1sum md5sum cksum base64 xxd hexdump od strings diff cmp sdiff zdiff "
    "tcpdump tshark perf bpftrace iotop nethogs iftop nvidia-smi pg_isready pg_controldata pg_waldump "
    "pg_config pg_dump pg_dumpall mysqldump mongotop mongostat mongoexport bsondump kcat kafkacat jstack jmap "
    "jstat jcmd jps py-spy rbspy man apropos history watch nc ncat telnet getfacl lsattr namei journalctl lvs "
    "vgs pvs lvdisplay vgdisplay pvdisplay pvscan sensors ipmitool ntpq ntpstat loginctl systemd-analyze "
    "systemd-cgtop coredumpctl mysqlbinlog pgbadger pt-query-digest innotop logcli promql thanos "
    "mimirtool kubectx kubens stern k9s"
)
DESTROYS = word_set(
    "rm rmdir unlink shred wipefs fdisk sfdisk gdisk parted reboot shutdown halt poweroff truncate userdel "
    "groupdel lvremove vgremove pvremove dropdb dropuser pg_resetwal pg_resetxlog pg_archivecleanup pg_rewind "
    "initdb killall pkill mkswap blkdiscard sgdisk deluser hdparm cryptsetup swapoff vacuumlo"
)
WRAPPERS: Mapping[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-U", "--user", "--group"}),
    "doas": frozenset({"-u"}),
    "env": frozenset({"-u", "-C"}),
    "time": frozenset(),
    "nohup": frozenset(),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "chroot": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-o", "-e", "-i"}),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}),
    "xargs": word_set("-n -I -P -L -d -s -a --max-args --max-procs --replace"),
    "flock": frozenset({"-w"}),
    "unbuffer": frozenset(),
    "nsenter": frozenset({"-t", "--target"}),
    "runuser": frozenset({"-u", "-l"}),
    "gosu": frozenset(),
    "exec": frozenset(),
    "command": frozenset(),
    "builtin": frozenset(),
    "busybox": frozenset(),
    "taskset": frozenset(),
    "chrt": frozenset(),
    "numactl": word_set("-N -m -C -p -i"),
    "strace": word_set("-e -o -p -s -a -E -u -P -I -b -O -S -X"),
    "ltrace": word_set("-e -o -p -s -a -u -n -l"),
    "systemd-run": word_set("-p -u -M -H --unit --property"),
}
"""Programs that run another one, with their flags that take a value."""

JOINERS: Mapping[str, frozenset[str]] = {
    "watch": word_set("-n --interval -q --equexit"),
    "eval": frozenset(),
    "parallel": word_set("-j -n -N -L -I -a -S --jobs --delay --timeout --retries --joblog --colsep -C -d"),
}
"""Programs that put their words together to one line, which a shell runs."""

_LEADING_OPERANDS: Mapping[str, int] = {"timeout": 1, "chroot": 1, "flock": 1, "gosu": 1, "taskset": 1, "chrt": 1}
KEYWORDS = word_set("if then else elif fi do done while until ! { } ( )")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)


def unwrap(words: Sequence[str]) -> list[str]:
    """`words` without the assignments, keywords and wrappers in front of the program that does the work."""
    rest = list(words)
    while rest:
        first = rest[0]
        if first in KEYWORDS or _ASSIGNMENT.fullmatch(first):
            rest = rest[1:]
        elif first == "function" or re.fullmatch(r"[\w.-]+\(\)", first):
            rest = rest[2 if first == "function" else 1 :]
        elif first == "case":
            rest = rest[next((place for place, word in enumerate(rest) if word.endswith(")")), len(rest)) + 1 :]
        elif first.endswith(")") and "(" not in first:
            rest = rest[1:]  # a further pattern of a `case`
        elif first in ("for", "select"):
            return []
        elif first == "command" and rest[1:2] in (["-v"], ["-V"]):
            return ["which"]
        elif first in WRAPPERS and len(rest) > 1:
            rest = after_flags(rest[1:], WRAPPERS[first], _LEADING_OPERANDS.get(first, 0))
        else:
            break
    return rest


def after_flags(words: Sequence[str], valued: frozenset[str], operands: int = 0) -> list[str]:
    """`words` without leading flags, their values, and as many `operands`."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        flag = words[position]
        # `sudo -iu postgres` is `sudo -i -u postgres`.
        position += 2 if flag in valued or (re.fullmatch(r"-[a-zA-Z]{2}", flag) and f"-{flag[2]}" in valued) else 1
    return list(words[position + operands :])


def classify_unix(name: str, words: Sequence[str]) -> Safety:
    """Program `name` with the words after it."""
    if name in _BY_FLAGS:
        return _BY_FLAGS[name](words)
    if name in DESTROYS or name.startswith("mkfs"):
        return READ_ONLY if "--dry-run" in words else DESTRUCTIVE
    return READ_ONLY if name in READS else CHANGES


def _curl(words: Sequence[str]) -> Safety:
    text = " ".join(words)
    method = re.search(r"(?:^| )(?:-[a-zA-Z]*X|--request)[ =]?([A-Za-z]+)", text)
    verb = method[1].upper() if method else ""
    if verb == "DELETE":
        return DESTRUCTIVE
    if re.search(r"(?:^| )(?:-[sSkLfiv]*G|--get|-[sSkLfiv]*I|--head)(?: |$)", text):
        verb = verb or "GET"
    sends = re.search(r"(?:^| )(?:-[sSkLfiv]*d|--data\S*|--json|-F|--form|-T|--upload-file)(?: |=|$|')", text)
    return CHANGES if verb in ("POST", "PUT", "PATCH") or (sends and verb not in ("GET", "HEAD")) else READ_ONLY


def _kill(words: Sequence[str]) -> Safety:
    signal = next((word.lstrip("-").upper().removeprefix("SIG") for word in words if word.startswith("-")), "TERM")
    if signal in ("0", "L"):
        return READ_ONLY
    return CHANGES if signal in ("HUP", "1", "USR1", "10", "USR2", "12", "CONT", "18", "WINCH") else DESTRUCTIVE


def _flags(level: Safety, *patterns: str, otherwise: Safety = READ_ONLY) -> Callable[[Sequence[str]], Safety]:
    compiled = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    return lambda words: level if any(compiled.fullmatch(word) for word in words) else otherwise


def _kafka(words: Sequence[str]) -> Safety:
    flags = {word.partition("=")[0] for word in words}
    if "--delete" in flags or ("--reset-offsets" in flags and "--execute" in flags):
        return DESTRUCTIVE
    if flags & {"--describe", "--list", "--dry-run", "--verify", "--version"} or "--reset-offsets" in flags:
        return READ_ONLY
    return CHANGES


_BY_FLAGS: Mapping[str, Callable[[Sequence[str]], Safety]] = {
    "curl": _curl,
    "kill": _kill,
    "dd": _flags(DESTRUCTIVE, r"of=(?!/dev/null).*"),
    "perl": _flags(CHANGES, r".*"),
    "sysctl": _flags(CHANGES, "-w", "--write", r"[\w.]+=.*", "-p.*", "--system"),
    "journalctl": _flags(DESTRUCTIVE, "--vacuum.*"),
    "dmesg": _flags(CHANGES, "-C", "-c", "--clear", "--read-clear"),
    "crontab": _flags(READ_ONLY, "-l", otherwise=CHANGES),
    "mount": lambda words: CHANGES if any(not word.startswith("-") for word in words) else READ_ONLY,
    "iptables": _flags(DESTRUCTIVE, "-F", "-X", "-D", "--flush", "--delete", otherwise=CHANGES),
    "hostname": lambda words: CHANGES if any(not word.startswith("-") for word in words) else READ_ONLY,
    "date": _flags(CHANGES, "-s", "--set.*"),
    "fuser": _flags(DESTRUCTIVE, "-[a-z]*k[a-z]*", "--kill"),
    "rsync": _flags(DESTRUCTIVE, "--delete.*", "--remove-source-files", otherwise=CHANGES),
    "mongorestore": lambda words: READ_ONLY if "--dryRun" in words else DESTRUCTIVE if "--drop" in words else CHANGES,
    "pg_restore": _flags(DESTRUCTIVE, "--clean", "-c", otherwise=CHANGES),
    "pg_rewind": _flags(READ_ONLY, "--dry-run", "-n", otherwise=DESTRUCTIVE),
    "redis-check-aof": _flags(DESTRUCTIVE, "--fix"),
    "redis-check-rdb": lambda _: READ_ONLY,
    "fsck": _flags(READ_ONLY, "-n", otherwise=CHANGES),
    "service": _flags(READ_ONLY, "status", "--status-all", otherwise=CHANGES),
    "init": _flags(DESTRUCTIVE, "0", "6", otherwise=CHANGES),
    "kafka-topics": _kafka,
    "kafka-consumer-groups": _kafka,
    "kafka-configs": _kafka,
    "kafka-acls": _flags(DESTRUCTIVE, "--remove", otherwise=CHANGES),
    "kafka-delete-records": lambda _: DESTRUCTIVE,
    "kafka-console-consumer": lambda _: READ_ONLY,
    "pt-table-checksum": lambda _: CHANGES,
    "pt-kill": _flags(DESTRUCTIVE, "--kill.*"),
    "repmgr": _flags(READ_ONLY, "show", "status", "check", "matrix", "crosscheck", "--dry-run", otherwise=CHANGES),
}
