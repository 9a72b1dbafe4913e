"""The console in a real Chromium, over the real processes."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from confluent_kafka import Producer
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright
from whole_stack import Stack, until

from cairn_shared.events import Event, SourceDocument, make_event

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = ("/", "/search?q=replication+lag", "/runbooks", "/timeline", "/dlq", "/questions", "/status", "/edit")
PAGE = "# The press is jammed\n\n## Steps\n\n1. **Open the flap.** It is at the back.\n\n   ```bash\n   press --open\n   ```\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `make browser` installs it"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complains of; a test ends with none."""
    return []


@pytest.fixture
def context(browser: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1200, "height": 900})
    made.set_default_timeout(20_000)
    expect.set_options(timeout=20_000)
    yield made
    made.close()
    assert complaints == []


@pytest.fixture
def page(context: BrowserContext, stack: Stack, complaints: list[str]) -> Page:
    """Somebody who is logged in as the admin."""
    return logged_in(context, stack, admin_key(stack), complaints)


def logged_in(context: BrowserContext, stack: Stack, key: str, complaints: list[str]) -> Page:
    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    def raised(error: Error) -> None:
        complaints.append(str(error))

    page = context.new_page()
    page.on("console", said)
    page.on("pageerror", raised)
    page.goto(f"{url(stack)}/")
    page.fill("#key", key)
    page.click("button")
    page.wait_for_url("**/console/")
    return page


def admin_key(stack: Stack) -> str:
    return stack.http.headers["authorization"].removeprefix("Bearer ")


def url(stack: Stack) -> str:
    return f"{str(stack.http.base_url).rstrip('/')}/console"


def saved(stack: Stack, runbook_id: str, text: str) -> None:
    assert stack.settled(stack.put(runbook_id, text)["event_id"]) == "searchable"


def test_a_question_is_answered_and_a_citation_opens_its_step(page: Page, stack: Stack) -> None:
    saved(stack, "press", PAGE)
    page.goto(f"{url(stack)}/?q=the+press+is+jammed+open+the+flap")
    expect(page.get_by_text("Open the flap.").first).to_be_visible()
    expect(page.get_by_text("press --open").first).to_be_visible()
    page.get_by_role("button", name="The press is jammed, Step 1").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("It is at the back.")).to_be_visible()
    dialog.get_by_role("link", name="Open the whole runbook").click()
    page.wait_for_url("**/runbook/press**")
    page.get_by_role("link", name="Ask", exact=True).click()
    expect(page.get_by_role("button", name="the press is jammed open the flap")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Question")).to_have_value("the press is jammed open the flap")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="The press is jammed, Step 1").first).to_be_visible()


def test_an_edit_is_previewed_saved_and_found_and_can_be_taken_back(page: Page, stack: Stack) -> None:
    saved(stack, "press-edit", PAGE)
    page.goto(f"{url(stack)}/edit/press-edit")
    write(page, PAGE.replace("at the back", "under the xylophone"))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("It is under the xylophone.").last).to_be_visible()
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/runbook/press-edit")
    expect(page.get_by_text("under the xylophone").first).to_be_visible()
    until(lambda: any("xylophone" in hit["text"] for hit in stack.search("xylophone")), "the change to be searchable")
    page.goto(f"{url(stack)}/runbook/press-edit?revision=1")
    expect(page.locator(".diff .add")).to_contain_text("xylophone")
    page.get_by_role("button", name="Put revision 1 back").click()
    page.wait_for_url("**/runbook/press-edit")
    expect(page.get_by_text("It is at the back.").first).to_be_visible()


def test_who_was_slower_is_shown_what_the_other_wrote(page: Page, stack: Stack, complaints: list[str]) -> None:
    saved(stack, "press-both", PAGE)
    page.goto(f"{url(stack)}/edit/press-both")
    write(page, PAGE.replace("at the back", "on the left"))
    stack.put("press-both", PAGE.replace("at the back", "on the right"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Somebody else has changed it meanwhile.")).to_be_visible()
    expect(page.locator(".diff .del")).to_contain_text("on the right")
    page.get_by_role("button", name="Write mine over it").click()
    page.wait_for_url("**/runbook/press-both")
    expect(page.get_by_text("on the left").first).to_be_visible()


def test_a_dead_letter_is_tried_mended_and_resolved(page: Page, stack: Stack) -> None:
    name = f"poison-{uuid.uuid4().hex[:8]}"
    event = alert(name)
    good = json.loads(event.encode())
    bad = good | {"payload": good["payload"] | {"title": 7}}
    produce(stack, event.topic(), event.key(), json.dumps(bad).encode())
    found = until(lambda: letter(stack, name), "the letter")
    page.goto(f"{url(stack)}/dlq")
    page.get_by_role("link", name=found["subject"] or found["id"]).first.click()
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("With the code of now, nothing written: 0 well, 1 not.")).to_be_visible()
    page.get_by_role("button", name="Edit and send ...").click()
    dialog = page.get_by_role("dialog")
    write(page, json.dumps(good), within="[role=dialog] ")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_text("1 well, 0 not.")).to_be_visible()
    dialog.get_by_role("button", name="Send").click()
    until(lambda: stack.http.get(f"/dlq/{found['id']}").json()["state"] == "resolved", "the letter to be resolved")
    page.goto(f"{url(stack)}/dlq/{found['id']}")
    expect(page.locator(".tag", has_text="resolved").first).to_be_visible()


def test_a_letter_of_a_mended_bug_is_replayed(page: Page, stack: Stack) -> None:
    """As if the bug that made it were mended: its event is good."""
    name = f"mended-{uuid.uuid4().hex[:8]}"
    good = alert(name)
    bad = json.loads(good.encode())
    bad["payload"]["title"] = 7
    produce(stack, good.topic(), good.key(), json.dumps(bad).encode())
    found = until(lambda: letter(stack, name), "the letter")
    line = json.loads(stack.http.get("/dlq/export", params={"event_id": found["event_id"]}).text.splitlines()[0])
    stack.http.post("/dlq/discards", json={"ids": [found["id"]], "reason": "sent again, mended"}).raise_for_status()
    line |= {"value": base64.b64encode(good.encode()).decode(), "offset": line["offset"] + 1_000_000}
    headers = {"content-type": "application/x-ndjson"}
    taken = stack.http.post("/dlq/import", content=json.dumps(line).encode(), headers=headers)
    assert taken.json() == {"imported": 1, "known": 0, "rejected": []}
    page.goto(f"{url(stack)}/dlq")
    page.get_by_role("link", name=name).first.click()
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("With the code of now, nothing written: 1 well, 0 not.")).to_be_visible()
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.locator(".tag", has_text="resolved").first).to_be_visible()
    assert stack.settled(str(good.event_id)) == "searchable"


def test_a_reader_sees_and_cannot_change(context: BrowserContext, stack: Stack, complaints: list[str]) -> None:
    saved(stack, "press-read", PAGE)
    name = f"reader-{uuid.uuid4().hex[:8]}"
    stack.http.put(f"/users/{name}", json={"name": "Reader", "role": "reader"}).raise_for_status()
    made = stack.http.post(f"/users/{name}/keys", json={"label": "console"}).json()
    page = logged_in(context, stack, made["key"], complaints)
    page.goto(f"{url(stack)}/edit/press-read")
    write(page, PAGE.replace("at the back", "gone"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Your role may not do this.")).to_be_visible()
    page.goto(f"{url(stack)}/dlq")
    expect(page.get_by_text("Your role may not do this.").first).to_be_visible()
    stack.http.delete(f"/users/{name}/keys/{made['key_id']}").raise_for_status()

    def shut_out() -> bool:
        page.goto(f"{url(stack)}/runbooks")
        page.wait_for_load_state("networkidle")
        return page.get_by_text("The key is not valid any more.").count() > 0

    until(shut_out, "the key to stop working")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_every_page_is_accessible_and_without_errors(
    browser: Browser, stack: Stack, complaints: list[str], scheme: Any, width: int
) -> None:
    saved(stack, "press", PAGE)
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = logged_in(context, stack, admin_key(stack), complaints)
    for path in (*PAGES, "/runbook/press", "/?q=the+press+is+jammed"):
        page.goto(f"{url(stack)}{path}")
        page.wait_for_load_state("networkidle")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [
            (one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in {"serious", "critical"}
        ]
        assert serious == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels wider than the screen"
    context.close()
    assert complaints == []


def test_the_console_shows_nothing_before_the_key_and_runs_no_foreign_text(
    page: Page, stack: Stack, complaints: list[str]
) -> None:
    with httpx.Client(base_url=str(stack.http.base_url), trust_env=False) as anonymous:
        only_a_key_opens(anonymous, admin_key(stack))
    hostile = "# <img src=x onerror=alert(1)> flap\n\n1. <script>document.title='taken'</script> Look [here](javascript:alert(1)).\n"
    saved(stack, "press-hostile", hostile)
    page.goto(f"{url(stack)}/runbook/press-hostile")
    expect(page.get_by_text("<script>document.title='taken'</script>").first).to_be_visible()
    assert page.title() != "taken"
    assert page.locator("a[href^='javascript']").count() == 0


def only_a_key_opens(anonymous: httpx.Client, key: str) -> None:
    for path in PAGES:
        answer = anonymous.get(f"/console{path}")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/console/login")
    refused = anonymous.post("/console/login", data={"key": "cairn_wrong", "to": "//evil.example"})
    assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
    taken = anonymous.post("/console/login", data={"key": key, "to": "https://evil.example/console/"})
    assert taken.headers["location"] == "/console/"
    cookie = taken.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert key not in cookie
    foreign = anonymous.post("/console/login", data={"key": key}, headers={"sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403


def alert(name: str) -> Event:
    now = datetime.now(UTC)
    return make_event(
        "alert", source="alertmanager", source_id=name, subject=name, version=1, occurred_at=now, accepted_at=now,
        payload=SourceDocument(title=f"Incident {name}", body="It is over."),
    )  # fmt: skip


def write(page: Page, text: str, within: str = "") -> None:
    """In place of what the editor holds."""
    editor = page.locator(f"{within}.cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.wait_for_timeout(300)


def letter(stack: Stack, name: str) -> dict[str, Any] | None:
    letters: list[dict[str, Any]] = stack.http.get("/dlq").json()["letters"]
    return next((one for one in letters if name in json.dumps(stack.http.get(f"/dlq/{one['id']}").json())), None)


def produce(stack: Stack, topic: str, key: bytes, value: bytes) -> None:
    ports = json.loads((stack.home / "ports.json").read_text())
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{ports['kafka']}"})
    producer.produce(topic, key=key, value=value)
    assert producer.flush(20) == 0
