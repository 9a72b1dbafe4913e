"""What programs that only read can do besides: write a file by an option, or run what their arguments say.

`beyond_reading` gives the least that such a call does, and the command lines in it, for the shell's rules to judge.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety

Beyond = tuple[Safety, list[str]]
_NOTHING: Beyond = (READ_ONLY, [])
_MAX_SCRIPT = 2000

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\|&|\|\s*getline|\|\s*\"|\bprintf?\b[^;}\n|]*\|(?!\|)")
_AWK_WRITES = re.compile(r"\bprintf?\b[^;}\n>]*>")
_SED_SUBSTITUTES = re.compile(r"[sy]([^\w\s\\])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1([a-zA-Z0-9]*)", re.DOTALL)
_SED_ADDRESS = re.compile(r"/(?:\\.|[^/\\])*/")


def beyond_reading(name: str, words: Sequence[str]) -> Beyond:
    """(the least that program `name` does with `words`, command lines that it runs)."""
    if name in _PROGRAMS:
        return _PROGRAMS[name](words)
    return (CHANGES, []) if name in _WRITES and any(map(_WRITES[name].fullmatch, words)) else _NOTHING


def _awk(words: Sequence[str]) -> Beyond:
    if any(word.startswith(("-f", "--file", "-i", "--include", "-E", "--exec")) for word in words):
        return CHANGES, []  # a program that is not written here
    for program in words:
        if len(program) > _MAX_SCRIPT:
            return CHANGES, []
        if _AWK_RUNS.search(program):
            return CHANGES, [re.sub(r"\\(.)", r"\1", text) for text in _QUOTED.findall(program)]
        if _AWK_WRITES.search(_QUOTED.sub('""', program)):
            return CHANGES, []
    return _NOTHING


def _sed(words: Sequence[str]) -> Beyond:
    scripts: list[str] = []
    for place, word in enumerate(words):
        if re.fullmatch(r"-[nEruzs]*[fi].*|--file.*|--in-place.*", word):
            return CHANGES, []
        if word in ("-e", "--expression"):
            scripts += words[place + 1 : place + 2]
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
    scripts = scripts or [word for word in words if not word.startswith("-")][:1]
    return (CHANGES, []) if any(map(_sed_acts, scripts)) else _NOTHING


def _sed_acts(script: str) -> bool:
    """`w file` and `e command`, as a command or as a flag of `s`."""
    if len(script) > _MAX_SCRIPT or any(set(match[2]) & set("we") for match in _SED_SUBSTITUTES.finditer(script)):
        return True
    return bool(set(_SED_ADDRESS.sub("", _SED_SUBSTITUTES.sub("", script))) & set("wWe"))


def _find(words: Sequence[str]) -> Beyond:
    level: Safety = CHANGES if any(word.startswith("-fprint") or word == "-fls" for word in words) else READ_ONLY
    if "-delete" in words:
        level = DESTRUCTIVE
    runs = [
        shlex.join(takewhile(lambda word: word not in (";", "+"), words[place + 1 :]))
        for place, word in enumerate(words)
        if word in ("-exec", "-execdir", "-ok", "-okdir")
    ]
    return level, runs


def _ip(words: Sequence[str]) -> Beyond:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        if rest[0].startswith(("-b", "-force")) and not rest[0].startswith("-br"):
            return CHANGES, []
        rest = rest[2 if rest[0] in ("-n", "-netns", "-f", "-family", "-l", "-loops", "-rc", "-rcvbuf") else 1 :]
    verb = rest[1] if len(rest) > 1 else "show"
    if rest[:1] == ["netns"] and verb in ("exec", "e"):
        return READ_ONLY, [shlex.join(rest[3:])]
    if rest[:1] in (["monitor"], ["help"]) or any(
        whole.startswith(verb) for whole in ("show", "list", "lst", "get", "help", "identify", "pids", "stats")
    ):
        return _NOTHING
    return (DESTRUCTIVE if verb.startswith(("d", "f")) else CHANGES), []


def _curl(words: Sequence[str]) -> Beyond:
    for place, word in enumerate(words):
        if re.fullmatch(r"-[a-zA-Z]*[OJ]|--remote-\S*|--config.*|-K.*|--trace\S*|--cookie-jar.*|-c", word):
            return CHANGES, []
        joined = re.fullmatch(r"(?:-[a-zA-Z]*[oD]|--output|--dump-header)(?:=?(.*))", word, re.DOTALL)
        if joined and not word.startswith("--output-dir"):
            target = joined[1] or "".join(words[place + 1 : place + 2])
            if target not in ("-", "/dev/null", "/dev/stdout", "/dev/stderr"):
                return CHANGES, []
    return _NOTHING


def _uniq(words: Sequence[str]) -> Beyond:
    operands = [
        word
        for place, word in enumerate(words)
        if not word.startswith("-") and (not place or words[place - 1] not in ("-f", "-s", "-w"))
    ]
    return (CHANGES, []) if len(operands) > 1 else _NOTHING


def _perf(words: Sequence[str]) -> Beyond:
    command = list(words[words.index("--") + 1 :]) if "--" in words else []
    reads = words[:1] == [] or words[0] in ("top", "report", "list", "script", "annotate", "stat", "version")
    return (READ_ONLY if reads else CHANGES), [shlex.join(command)] if command else []


def _unless(reads: str, bare: Safety = READ_ONLY) -> Callable[[Sequence[str]], Beyond]:
    """Only the subcommands and operands that match `reads` are known to be a look."""
    pattern = re.compile(reads)

    def judge(words: Sequence[str]) -> Beyond:
        operands = [word for word in words if not word.startswith("-")]
        if not operands:
            return bare, []
        return (READ_ONLY if pattern.fullmatch(" ".join(operands[:3])) else CHANGES), []

    return judge


_PROGRAMS: Mapping[str, Callable[[Sequence[str]], Beyond]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    "sed": _sed,
    "find": _find,
    "ip": _ip,
    "curl": _curl,
    "uniq": _uniq,
    "perf": _perf,
    "hostnamectl": _unless(r"status"),
    "loginctl": _unless(r"(?:list|show|.*-status|session-status|user-status).*"),
    "coredumpctl": _unless(r"(?:list|info).*"),
    "systemd-analyze": _unless(r"(?!log-level |log-target |set-|service-watchdogs ).*"),
    "jcmd": _unless(
        r"\S+|\S+ (?:help|VM\.(?!set_flag|log|cds)\S+|Thread\.print|GC\.heap_info|GC\.class_stats|PerfCounter\.print).*"
    ),
    "ipmitool": _unless(r".*\b(?:list|status|info|print|elist|get|summary)\b.*"),
    "kubectx": _unless(r"(?!.*).*"),
    "kubens": _unless(r"(?!.*).*"),
    "thanos": _unless(r"(?:query|check|tools bucket (?:ls|inspect|verify|web)|tools rules-check).*"),
    "mimirtool": _unless(
        r"(?:analyze|rules (?:list|get|print|lint|diff|check)|alertmanager (?:get|verify)|config|version).*"
    ),
    "py-spy": _unless(r"(?:dump|top).*"),
    "rbspy": _unless(r"(?:snapshot|report).*"),
    "history": _unless(r"\d+"),
}
_WRITES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "sort": r"-[bdfghiMnRrVcCmsuz]*o.*|--output.*|--compress-program.*",
        "tcpdump": r"-[a-zA-Z]*[wzGC].*",
        "tshark": r"-w.*",
        "openssl": r"-out|-keyout|-CAcreateserial|-writerand|-sigout|-engine",
        "xmllint": r"-o.*|--output.*",
        "tree": r"-o",
        "yq": r"-[a-zA-Z]*i[a-zA-Z]*|--inplace|--in-place",
        "xq": r"-[a-zA-Z]*i[a-zA-Z]*|--in-?place",
        "rg": r"--pre(?:=.*)?",
        "date": r"\d{8,}.*",
        "smartctl": r"-[tsXoS].*|--test.*|--abort|--set.*|--smart.*|--offlineauto.*|--saveauto.*",
        "ethtool": r"-[sKGALCErpfXNUWR]|--(?:set|change|config|reset|negotiate|identify|flash|offload|coalesce).*",
        "arp": r"-[dsf]|--(?:delete|set|file)",
        "ss": r"-[a-zA-Z]*K[a-zA-Z]*|--kill",
        "nvidia-smi": r"-r|-pm|-pl|-c|-e|-ac|-rac|-mig|--(?:gpu-reset|persistence|power-limit|compute|ecc|reset|app).*",
        "nc": r"-[a-zA-Z]*[ec]|--exec|--sh-exec",
        "ncat": r"-[a-zA-Z]*[ec]|--exec|--sh-exec|--lua-exec",
        "kcat": r"-[a-zA-Z]*P.*",
        "kafkacat": r"-[a-zA-Z]*P.*",
        "jmap": r"-dump.*|-histo:live.*|-F",
        "bpftrace": r"--unsafe|.*\bsystem\s*\(.*|-o",
        "strings": r"-o=.*",
        "dmesg": r"-[a-zA-Z]*[nDE]|--console.*",
        "journalctl": r"--rotate|--flush|--sync|--relinquish-var|--setup-keys|--update-catalog|--smart-relinquish-var",
        "history": r"-[a-z]*[cdwa].*",
        "pvscan": r"--cache",
        "pg_dump": r"-f.*|--file.*",
        "pg_dumpall": r"-f.*|--file.*",
        "mysqldump": r"-r.*|--result-file.*|-F|--flush-\w+|--delete-(?:master|source)-logs|-T.*|--tab.*",
        "mysqlbinlog": r"--raw|-r.*|--result-file.*",
        "mongoexport": r"-o.*|--out.*",
        "bsondump": r"--outFile.*",
        "hostname": r"-F.*|--file.*|-b",
    }.items()
}
"""Options, by program, with which it does not only read."""
