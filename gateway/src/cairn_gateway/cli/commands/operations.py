"""`cairn status`, `ingest`, `verify` and `indexes`: how Cairn is."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.options import AsJson, segment
from cairn_gateway.cli.waiting import SETTLED

VERIFY_TIMEOUT = 600.0
VERIFY_INTERVAL = 1.0
WATCH_INTERVAL = 0.25


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status")(status)
    app.command("ingest")(ingest)
    app.command("verify")(verify)
    app.command("indexes")(indexes)


def status(as_json: AsJson = False) -> None:
    """Show which parts are up, and what waits to be searchable. Ends with 1 when a part is down."""
    with connect() as cairn:
        response = cairn.request("GET", "/status")
        url = cairn.target.url
    state = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        _show_status(state, url)
    if state["status"] != "ok":
        raise Negative(f"degraded: {', '.join(_reasons(state))}", hint=_advice(state))


def ingest(
    words: Annotated[list[str], typer.Argument(metavar="[watch] EVENT_ID")],
    *,
    limit: Annotated[float, typer.Option(min=0.1, help="With watch: seconds until it gives up.")] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Tell what became of an event; with `watch`, once it came to an end. Ends with 1 when it is dead or unknown."""
    watch, event_id = _event_of(words)
    with connect() as cairn:
        response = cairn.request("GET", f"/ingest/{segment(event_id)}")
        end = time.monotonic() + limit
        while watch and as_object(response)["state"] not in SETTLED and time.monotonic() < end:
            time.sleep(WATCH_INTERVAL)
            response = cairn.request("GET", f"/ingest/{segment(event_id)}", patience=limit)
    state = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        facts = {name: value for name, value in state.items() if value is not None}
        screen.facts({"state": facts.pop("state"), **facts})
    if state["state"] == "dead":
        raise Negative("the event is dead", hint="`cairn dlq ls` shows its letter")
    if watch and state["state"] not in SETTLED:
        raise Negative(f"it is only {state['state']} after {limit:g} s", hint="`cairn status` shows what is down")


def _event_of(words: list[str]) -> tuple[bool, str]:
    """Whether to watch, and the event."""
    match words:
        case [event_id]:
            return False, event_id
        case ["watch", event_id]:
            return True, event_id
    raise UsageError("which event? `cairn ingest EVENT_ID` or `cairn ingest watch EVENT_ID`")


def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Publish again what differs, and compare again.")] = False,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Embed every stored text again, to find vectors of another text. Slow.")
    ] = False,
    repair_limit: Annotated[float, typer.Option(min=1, help="Seconds until a repair must have worked.")] = 120.0,
    repo: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare this repository's tree as well.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the stored runbooks with the index. Ends with 1 on a difference that stays."""
    if repo is not None:
        if vectors:
            raise UsageError("--vectors and --repo do not go together", hint="`cairn verify --vectors` checks all")
        _verify_repo(repo, repair=repair, as_json=as_json)
        return
    with connect() as cairn:
        found = _verify(cairn, repair=repair, vectors=vectors)
        after = _until_repaired(cairn, repair_limit, vectors=vectors) if repair and not found["ok"] else None
    if as_json:
        screen.data(found | ({"after": after} if after else {}))
    else:
        _show_verified(found)
        if after:
            screen.say(f"after {len(found['repaired'])} repairs: {_outcome(after)}")
    if not (after or found)["ok"]:
        raise Negative(
            _outcome(after or found),
            hint=None if repair else f"`cairn verify{' --vectors' if vectors else ''} --repair` publishes them again",
        )


def _verify_repo(name: str, *, repair: bool, as_json: bool) -> None:
    """Git's tree against the stored runbooks and the index."""
    if repair:
        raise UsageError("--repair and --repo do not go together", hint=f"`cairn sync {name} --wait` repairs it")
    with connect() as cairn:
        response = cairn.request("POST", f"/repos/{segment(name)}/verify", timeout=VERIFY_TIMEOUT)
    found = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        differences = len(found["tree"]) + len(found["index"])
        moving = f" ({len(found['pending'])} on their way)" if found["pending"] else ""
        outcome = f"{differences} differences" if differences else "no difference"
        screen.say(f"{found['files']} files at {found['commit'][:10]}: {outcome}{moving}")
        rows = [("git", one["kind"], one["path"], one["runbook_id"]) for one in found["tree"]]
        rows += [("index", one["kind"], "", one["runbook_id"]) for one in found["index"]]
        if rows:
            screen.table(("Against", "Difference", "Path", "Runbook"), rows)
    if not found["ok"]:
        raise Negative(f"{name} differs from its repository", hint=f"`cairn sync {name} --wait` makes it the same")


def indexes(as_json: AsJson = False) -> None:
    """Show which index each query of MongoDB uses. Ends with 1 when one reads a whole collection."""
    with connect() as cairn:
        response = cairn.request("GET", "/admin/indexes", timeout=60.0)
    found = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        rows = [
            (
                plan["collection"],
                plan["name"],
                plan["index"] or "none",
                plan["keys_examined"],
                plan["documents_examined"],
                plan["returned"],
            )
            for plan in found["plans"]
        ]
        columns = ("Collection", "Query", "Index", "Keys", "Documents", "Returned")
        screen.table(columns, rows, right=columns[3:])
    if not found["ok"]:
        without = [plan["name"] for plan in found["plans"] if not plan["index"]]
        raise Negative(f"without an index: {', '.join(without)}")


def _reasons(state: Json) -> list[str]:
    """Why it is not ok."""
    reasons = [name for name, condition in state["dependencies"].items() if condition != "ok"]
    dead = state.get("dead_letters") or {}
    if dead.get("open"):
        reasons.append(f"{dead['open']} dead letter{'s' if dead['open'] != 1 else ''}")
    if dead.get("halted"):
        reasons.append(f"consumption of {', '.join(dead['halted'])} is halted")
    return reasons


def _advice(state: Json) -> str | None:
    dead = state.get("dead_letters") or {}
    if dead.get("halted"):
        return "`cairn dlq halts` and `cairn dlq groups` show why"
    return "`cairn dlq groups` shows why" if dead.get("open") else None


def _show_status(state: Json, url: str) -> None:
    screen.say(f"Cairn {state['version']} at {url}: {state['status']}", style=screen.mood(state["status"] == "ok"))
    width = max(12, *(len(name) + 2 for name in state["dependencies"]))
    for name, condition in state["dependencies"].items():
        screen.say(f"  {name:<{width}}{condition}", style=screen.mood(condition == "ok"))
    index = state.get("index")
    facts: dict[str, Any] = {"runbooks": state.get("runbooks")}
    if index:
        facts["indexed"] = ", ".join(f"{number} {kind}" for kind, number in index["documents"].items()) or "nothing"
        facts |= {"steps": index["steps"], "chunks": index["chunks"], "last indexed": index["last_indexed_at"]}
        facts["model"] = index["fingerprint"]
        for space in index.get("details", {}).get("embedding_spaces", ()):
            if space["state"] == "building":
                facts["next model"] = f"{space['fingerprint']}, {space['chunks']} of {index['chunks']} chunks"
                facts["next model"] += f", {space['problem']}" if space.get("problem") else ""
    for name, queue in (state.get("queues") or {}).items():
        facts[name] = f"{queue['pending']} waiting" + (
            f" for up to {queue['oldest_seconds']:.1f} s" if queue["pending"] else ""
        )
        if queue["refused"]:
            facts[name] += f", {queue['refused']} refused"
    if dead := state.get("dead_letters"):
        facts["dead letters"] = f"{dead['open']} open" + (
            f", the oldest for {dead['oldest_seconds']:.0f} s" if dead["open"] else ""
        )
        if dead["replaying"]:
            facts["dead letters"] += f", {dead['replaying']} being replayed"
        facts["halted"] = dead["halted"]
    if (partitions := state.get("partitions")) is not None:
        facts["lag"] = f"{sum(one['lag'] for one in partitions)} records in {len(partitions)} partitions"
    if answers := state.get("answers"):
        facts["model circuit"] = answers["circuit"]
        if (rate := answers["cache_hit_rate"]) is not None:
            facts["answer cache"] = f"{rate:.0%} hits"
    screen.facts(facts)


def _verify(cairn: Cairn, *, repair: bool, vectors: bool) -> Json:
    body = {"repair": repair, "vectors": vectors}
    return as_object(cairn.request("POST", "/verify", body=body, timeout=VERIFY_TIMEOUT))


def _until_repaired(cairn: Cairn, limit: float, *, vectors: bool) -> Json:
    """Compare until nothing differs: a repair has to pass through Kafka first."""
    end = time.monotonic() + limit
    while True:
        found = _verify(cairn, repair=False, vectors=vectors)
        if (found["ok"] and not found["pending"]) or time.monotonic() + VERIFY_INTERVAL > end:
            return found
        time.sleep(VERIFY_INTERVAL)


def _show_verified(found: Json) -> None:
    gone = f" ({found['tombstones']} deleted ones compared as well)" if found.get("tombstones") else ""
    screen.say(f"{found['checked']} runbooks, {found['indexed']} in the index{gone}: {_outcome(found)}")
    rows = [
        (kind, item["runbook_id"], item["revision"], item["indexed_version"])
        for kind, items in found["differences"].items()
        for item in items
    ]
    if rows:
        screen.table(("Difference", "Runbook", "Revision", "Indexed"), rows, right=("Revision", "Indexed"))


def _outcome(found: Json) -> str:
    counts = ", ".join(f"{number} {kind}" for kind, number in found["counts"].items() if number)
    on_their_way = f" ({len(found['pending'])} on their way)" if found["pending"] else ""
    return (counts or "no difference") + on_their_way
