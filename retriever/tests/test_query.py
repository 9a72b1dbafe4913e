"""Reading a request."""

from __future__ import annotations

import pytest
from growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from cairn_retriever.query import MAX_CHARACTERS, clean, excerpt, link_names, parse
from cairn_shared.api.search import AlertContext


class TestNames:
    @pytest.mark.parametrize(
        ("text", "name", "is_name"),
        [
            ("KubePodCrashLooping is back", "kubepodcrashlooping", True),
            ("what does etcd_no_leader mean", "etcd_no_leader", True),
            ("replica-lag-high fired", "replica-lag-high", True),
            ("Watchdog", "watchdog", True),
            ("the Watchdog alert", "watchdog", True),
            ("alertname=Watchdog", "watchdog", True),
            ("Watchdog is firing", "watchdog", True),
            ("the watchdog resets my laptop", "watchdog", False),
            ("redis replica lags", "redis", False),
        ],
    )
    def test_spelling_or_context_tells_a_name_from_a_word(self, text: str, name: str, *, is_name: bool) -> None:
        assert parse(text).names[name] is is_name

    def test_words_of_an_address_are_not_names(self) -> None:
        assert "KubePodCrashLooping".casefold() not in parse("see https://wiki/KubePodCrashLooping").names


class TestAddresses:
    def test_query_and_fragment_do_not_matter(self) -> None:
        links = parse("https://Runbooks.Example/KubeNodeNotReady/?utm=1#impact").links
        assert "https://runbooks.example/kubenodenotready" in links
        assert "https://runbooks.example/kubenodenotready/" in links

    def test_last_segment_may_name_a_runbook(self) -> None:
        assert link_names(parse("https://git.example/blob/main/KubeNodeNotReady.md").links) == ["kubenodenotready"]

    def test_full_stop_after_an_address_is_not_part_of_it(self) -> None:
        assert "https://wiki/a-page" in parse("look at https://wiki/a-page.").links


class TestAlertField:
    def test_its_words_are_searched_and_its_labels_are_not(self) -> None:
        alert = AlertContext(
            name="DiskFull",
            labels={"instance": "pg-orders-2:9187", "severity": "critical"},
            annotations={"summary": "The volume is almost full", "runbook_url": "https://wiki/DiskFull"},
        )
        query = parse("help", alert)
        assert query.alerts == ("diskfull",)
        assert "volume" in query.lexical_text
        assert "pg-orders-2" in query.identifiers
        assert "9187" not in query.embed_text
        assert "https://wiki/diskfull" in query.links

    def test_name_may_stand_among_the_labels(self) -> None:
        assert parse("help", AlertContext(labels={"alertname": "DiskFull"})).alerts == ("diskfull",)

    def test_an_alert_alone_is_a_question(self) -> None:
        assert parse("", AlertContext(name="DiskFull")).embed_text == "DiskFull"


class TestWhatIsEmbedded:
    def test_short_text_is_kept(self) -> None:
        assert excerpt("  why is it slow?  ") == "why is it slow?"

    def test_question_around_a_paste_and_its_errors_are_kept(self) -> None:
        noise = [f"2026-01-01T00:00:{i % 60:02d}Z INFO request {i} served in {i} ms" for i in range(500)]
        noise.insert(250, "2026-01-01T00:04:10Z ERROR could not open relation 16384: No space left on device")
        text = excerpt("\n".join(["why did postgres stop?", *noise, "what do I do?"]))
        assert len(text) <= MAX_CHARACTERS
        assert "why did postgres stop?" in text
        assert "what do I do?" in text
        assert "No space left on device" in text
        assert "served in" not in text
        assert "2026-01-01" not in text

    def test_a_log_without_a_question_is_its_errors(self) -> None:
        usual = [f"2026-11-30 03:00:{i % 60:02d}.{i} UTC [{i}] LOG:  duration: {i}.5 ms  SELECT {i}" for i in range(90)]
        error = "2026-11-30 03:30:00.1 UTC [77] FATAL:  sorry, too many clients already"
        assert excerpt("\n".join([*usual, error, *usual])) == "[77] FATAL:  sorry, too many clients already"

    def test_a_log_without_errors_is_one_line_of_each_shape(self) -> None:
        lines = [f"order {i} accepted" for i in range(90)] + [f"order {i} shipped" for i in range(90)]
        assert excerpt("\n".join(lines)) == "order 0 accepted\norder 0 shipped"

    @pytest.mark.parametrize(
        "time",
        [
            "2026-11-30T03:30:00.123Z",
            "2026-11-30 03:30:00,1 UTC",
            "2026-11-30T03:30:00+01:00",
            "30 Nov 2026 03:30:00.123",
            "30/Nov/2026:03:30:00 +0000",
            "Nov 30 03:30:00",
            "Nov  3 03:30:00",
        ],
    )
    def test_the_time_of_a_line_is_left_out(self, time: str) -> None:
        assert excerpt(f"{time} no space left on device").strip() == "no space left on device"
        assert excerpt(time) == time

    def test_a_pasted_log_is_read_in_linear_time(self) -> None:
        lines = [f"{{{{[[ {i} error=0x{i:016x} path=/var/log/app-{i}.log }}" for i in range(400)] * 2
        assert_linear(lambda size: parse("\n".join(lines[:size])), len(lines))

    def test_a_paste_asks_for_few_words_and_first_for_the_names_in_its_errors(self) -> None:
        """PostgreSQL's cover density of thousands of lexemes took seconds for each search."""
        lines = [f"word{i} lorem{i} said pod-{i}" for i in range(500)]
        query = parse("\n".join([*lines, "error PROJ-12", *lines]))
        assert len(query.lexical_text) <= 2 * MAX_CHARACTERS
        assert query.identifiers[0] == "proj-12"
        assert "pod-50" in query.identifiers

    @given(st.text(max_size=3000))
    def test_any_text_can_be_read(self, text: str) -> None:
        query = parse(text)
        assert len(query.embed_text) <= MAX_CHARACTERS
        assert "\0" not in query.lexical_text


def test_what_postgres_cannot_store_is_replaced() -> None:
    assert clean("a\0b\ud800c") == "a b\ufffdc"
