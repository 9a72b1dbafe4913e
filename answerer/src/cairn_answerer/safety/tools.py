"""What the command-line tools of on-call work do, as tables: one row a tool, subcommands by what they do.

An unknown tool or subcommand counts as changing state: only what is known to be harmless is called read-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety


def _all(text: str) -> frozenset[str]:
    """Subcommands, of one word or two, as they stand between commas."""
    return frozenset(text.split(", "))


@dataclass(frozen=True)
class Tool:
    """A tool with subcommands. Two-word subcommands (`rollout status`) are looked up before one-word ones."""

    reads: frozenset[str] = frozenset()
    destroys: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    """Flags in front of the subcommand that take a value."""
    dry_run: tuple[str, ...] = ()
    """Flags that turn any subcommand into a look."""
    destroying_flags: frozenset[str] = frozenset()
    bare: Safety = READ_ONLY
    """Without a subcommand."""
    lists: frozenset[str] = frozenset()
    """Subcommands that are a look alone (`git branch`); with another word only as a pair of `reads` or with a flag of
    `listing_flags`."""
    listing_flags: frozenset[str] = frozenset()


_KUBECTL = Tool(
    reads=_all(
        "api-resources, api-versions, cluster-info, completion, describe, diff, events, explain, get, kustomize, log, "
        "logs, options, port-forward, projects, proxy, status, top, version, wait, whoami, adm inspect, adm "
        "must-gather, adm node-logs, adm release, adm top, auth can-i, auth whoami, config current-context, config "
        "get-clusters, config get-contexts, config view, image info, plugin list, rollout history, rollout status"
    ),
    destroys=_all("delete, drain, adm drain, adm prune"),
    valued=_all(
        "--as, --as-group, --cluster, --container, --context, --field-selector, --filename, --kubeconfig, "
        "--namespace, --output, --request-timeout, --selector, --server, --since, --sort-by, --tail, --token, --user, "
        "-c, -f, -l, -n, -o, -s, -v"
    ),
    destroying_flags=_all("--force, --prune"),
    dry_run=("--dry-run", "--dry-run=client", "--dry-run=server", "--dry-run=true"),
)
_CONTAINERS = Tool(
    reads=_all(
        "diff, events, history, imagefsinfo, images, info, inspect, inspecti, inspectp, logs, pods, port, ps, search, "
        "stats, statsp, top, version, wait, buildx ls, compose config, compose images, compose logs, compose ls, "
        "compose ps, compose top, container inspect, container list, container logs, container ls, container stats, "
        "container top, context ls, context show, image history, image inspect, image list, image ls, manifest "
        "inspect, network inspect, network ls, node inspect, node ls, node ps, service inspect, service logs, service "
        "ls, service ps, stack ls, stack ps, system df, system events, system info, volume inspect, volume ls"
    ),
    destroys=_all(
        "kill, prune, rm, rmi, rmp, builder prune, compose kill, compose rm, config rm, container kill, container "
        "prune, container rm, image prune, image rm, network prune, network rm, node rm, secret rm, service rm, stack "
        "rm, swarm leave, system prune, volume prune, volume rm"
    ),
    valued=_all(
        "--config, --context, --file, --host, --log-level, --project-name, --runtime-endpoint, -H, -c, -f, -p, -r"
    ),
    destroying_flags=_all("--rmi, --volumes"),
)
TOOLS: Mapping[str, Tool] = {
    "kubectl": _KUBECTL,
    "oc": _KUBECTL,
    "k": _KUBECTL,
    "k3s": Tool(
        reads=_all("--version, check-config"),
        bare=CHANGES,
    ),
    "docker": _CONTAINERS,
    "podman": _CONTAINERS,
    "crictl": _CONTAINERS,
    "nerdctl": _CONTAINERS,
    "docker-compose": Tool(
        reads=_all("config, events, images, logs, ls, port, ps, top, version"),
        destroys=_all("kill, rm"),
        valued=_all("--file, --project-name, -f, -p"),
        destroying_flags=_all("--rmi, --volumes, -v"),
    ),
    "helm": Tool(
        reads=_all(
            "diff, env, get, help, history, lint, list, ls, search, show, status, template, verify, version, dep "
            "list, dependency list, plugin list, repo list"
        ),
        destroys=_all("del, delete, un, uninstall"),
        valued=_all("--kube-context, --kubeconfig, --namespace, -n"),
        destroying_flags=_all("--force"),
        dry_run=("--dry-run", "--dry-run=client", "--dry-run=server"),
    ),
    "git": Tool(
        reads=_all(
            "blame, cat-file, count-objects, describe, diff, fsck, grep, help, log, "
            "ls-files, ls-remote, ls-tree, merge-base, name-rev, rev-list, rev-parse, shortlog, show, "
            "status, version, whatchanged, notes show, reflog show, remote get-url, remote show, stash list, stash "
            "show, "
            "worktree list"
        ),
        lists=_all("branch, config, reflog, remote, tag"),
        listing_flags=_all("--contains, --get, --get-all, --list, --merged, --no-merged, --points-at, -l"),
        destroys=_all(
            "clean, filter-branch, filter-repo, prune, restore, rm, lfs prune, reflog delete, reflog expire, remote "
            "prune, stash clear, stash drop, worktree remove"
        ),
        valued=_all("--git-dir, --work-tree, -C, -c"),
        destroying_flags=_all("--delete, --force, --force-with-lease, --hard, --mirror, --prune, -D, -d, -f"),
        dry_run=("--dry-run",),
    ),
    "systemctl": Tool(
        reads=_all(
            "cat, get-default, help, is-active, is-enabled, is-failed, is-system-running, list-dependencies, "
            "list-jobs, list-sockets, list-timers, list-unit-files, list-units, show, show-environment, status"
        ),
        destroys=_all("clean, emergency, halt, isolate, kexec, kill, poweroff, reboot, rescue"),
        valued=_all("--host, --lines, --machine, --property, --type, -H, -M, -n, -p, -t"),
    ),
    "etcdctl": Tool(
        reads=_all(
            "get, version, alarm list, endpoint hashkv, endpoint health, endpoint status, lease list, "
            "member list, role get, role list, snapshot status, user get, user list"
        ),
        destroys=_all("compact, compaction, del, lease revoke, member remove, role delete, user delete"),
        valued=_all("--cacert, --cert, --command-timeout, --dial-timeout, --endpoints, --key, --user, --write-out, -w"),
    ),
    "rabbitmqctl": Tool(
        reads=_all(
            "cluster_status, environment, list_bindings, list_channels, list_connections, list_consumers, "
            "list_exchanges, list_parameters, list_permissions, list_policies, list_queues, list_users, list_vhosts, "
            "node_health_check, ping, report, status, version"
        ),
        destroys=_all(
            "clear_policy, delete_queue, delete_user, delete_vhost, force_reset, forget_cluster_node, purge_queue, "
            "reset, shutdown, stop"
        ),
        valued=_all("--node, --timeout, --vhost, -n, -p, -t"),
    ),
    "terraform": Tool(
        reads=_all(
            "console, graph, output, plan, providers, show, validate, version, state list, state pull, state show"
        ),
        destroys=_all("destroy, taint, state rm, workspace delete"),
        destroying_flags=_all("-destroy"),
    ),
    "patronictl": Tool(
        reads=_all("dsn, history, list, show-config, topology, version"),
        destroys=_all("reinit, remove"),
        valued=_all("--config-file, --dcs-url, -c, -d"),
    ),
    "pg_ctl": Tool(
        reads=_all("status"),
        valued=_all("-D, -U, -l, -m, -o, -t, -w"),
        bare=CHANGES,
    ),
    "mysqladmin": Tool(
        reads=_all("extended-status, ping, proc, processlist, status, variables, version"),
        destroys=_all("drop, kill, shutdown"),
        valued=_all("--host, --port, --sleep, --socket, --user, -P, -S, -h, -i, -u"),
    ),
    "amtool": Tool(
        lists=_all("alert, config, silence"),
        reads=_all("check-config, alert query, cluster show, config routes, config show, silence query"),
        valued=_all("--alertmanager.url"),
    ),
    "promtool": Tool(
        reads=_all("check, debug, query, test"),
    ),
    "timedatectl": Tool(
        reads=_all("list-timezones, show, show-timesync, status, timesync-status"),
    ),
    "chronyc": Tool(
        reads=_all("activity, ntpdata, serverstats, sources, sourcestats, tracking"),
        valued=_all("-h, -p"),
    ),
    "apt": Tool(
        reads=_all("list, policy, search, show"),
        destroys=_all("autoremove, purge, remove"),
    ),
    "apt-get": Tool(
        reads=_all("changelog, check"),
        destroys=_all("autoremove, purge, remove"),
    ),
    "yum": Tool(
        reads=_all("check-update, info, list, repolist, search, history list, history info"),
        lists=_all("history"),
        destroys=_all("autoremove, erase, remove"),
    ),
    "dnf": Tool(
        reads=_all("check-update, info, list, repolist, search, history list, history info"),
        lists=_all("history"),
        destroys=_all("autoremove, erase, remove"),
    ),
    "zfs": Tool(
        reads=_all("diff, get, list"),
        destroys=_all("destroy, rollback"),
    ),
    "zpool": Tool(
        reads=_all("get, history, iostat, list, status"),
        destroys=_all("destroy, labelclear"),
    ),
    "ceph": Tool(
        reads=_all(
            "-s, -w, df, health, quorum_status, status, version, versions, fs ls, fs status, "
            "health detail, mgr dump, mgr services, mon dump, mon stat, osd df, osd dump, osd ok-to-stop, osd perf, "
            "osd stat, osd "
            "status, osd tree, pg dump, pg ls, pg stat"
        ),
        destroys=_all("purge, fs rm, osd destroy, osd lost, osd purge, osd rm, pg force_create_pg"),
    ),
    "velero": Tool(
        reads=_all("describe, get, version, backup describe, backup get, backup logs, restore describe, restore get"),
        destroys=_all("delete, uninstall, backup delete, restore delete, schedule delete"),
    ),
    "virtctl": Tool(
        reads=_all("fslist, guestosinfo, userlist, version"),
    ),
    "nodetool": Tool(
        reads=_all(
            "cfstats, compactionstats, describecluster, gossipinfo, info, netstats, ring, status, tablestats, "
            "tpstats, version"
        ),
        destroys=_all("assassinate, clearsnapshot, decommission, drain, removenode"),
        valued=_all("--host, --port, -h, -p, -pw, -u"),
    ),
    "vault": Tool(
        reads=_all("list, read, status, version, kv get, kv list, token lookup"),
        destroys=_all("delete, kv delete, kv destroy, lease revoke, secrets disable, token revoke"),
    ),
    "argocd": Tool(
        reads=_all("version, app diff, app get, app history, app list, app logs, app manifests"),
        destroys=_all("app delete, app terminate-op"),
    ),
}


def classify_tool(tool: Tool, words: Sequence[str]) -> Safety:
    """The words after the tool's name."""
    if any(word in tool.dry_run for word in words):
        return READ_ONLY
    verbs = _verbs(words, tool.valued)
    if not verbs:
        return tool.bare
    pair = " ".join(verbs[:2])
    if pair in tool.destroys or (pair not in tool.reads and verbs[0] in tool.destroys):
        return DESTRUCTIVE
    if verbs[0] in tool.lists and pair not in tool.reads:
        flags = {word.partition("=")[0] for word in words}
        reads = not _flagged(words, tool) and (len(verbs) == 1 or bool(flags & tool.listing_flags))
        return READ_ONLY if reads else DESTRUCTIVE if _flagged(words, tool) else CHANGES
    if pair in tool.reads or verbs[0] in tool.reads:
        # `git branch -D`: a look only without the flags that delete.
        return DESTRUCTIVE if tool is TOOLS["git"] and _flagged(words, tool) else READ_ONLY
    return DESTRUCTIVE if _flagged(words, tool) else CHANGES


def _flagged(words: Sequence[str], tool: Tool) -> bool:
    return any(word.partition("=")[0] in tool.destroying_flags and not word.endswith("=false") for word in words)


def _verbs(words: Sequence[str], valued: frozenset[str]) -> list[str]:
    verbs: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") and len(word) > 1:
            skip = word in valued
        else:
            verbs.append(word)
            if len(verbs) == 2:
                break
    return verbs
