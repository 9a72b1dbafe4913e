"""Exact identifiers: what is found, what is left alone, and how long it takes."""

from __future__ import annotations

import pytest
from growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from cairn_shared.identifiers import (
    MAX_IDENTIFIER_LENGTH,
    MAX_IDENTIFIERS,
    camel_case_names,
    identifiers,
    searchable_text,
    split_camel_case,
)

SHA = "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("see PROJ-123, please", ["proj-123"], id="ticket"),
        pytest.param("proj-123", ["proj-123"], id="ticket in a query typed in lower case"),
        pytest.param("PROJ-123's (PROJ-124): PROJ-125.", ["proj-123", "proj-124", "proj-125"], id="ticket in prose"),
        pytest.param("feature/PROJ-123-fix", ["feature/proj-123-fix", "proj-123-fix", "proj-123"], id="branch"),
        pytest.param("bugfix/login", ["bugfix/login"], id="branch without a ticket"),
        pytest.param("查看PROJ-123的状态", ["proj-123"], id="ticket between letters of another script"),
        pytest.param("Refs #33173", ["#33173"], id="issue number"),
        pytest.param("org/repo#12", ["org/repo#12", "repo#12", "#12"], id="issue of another repository"),
        pytest.param("CVE-2024-3094", ["cve-2024-3094"], id="CVE is not a ticket named CVE-2024"),
        pytest.param("ORA-00600", ["ora-00600"], id="error code with hyphen"),
        pytest.param("E11000 duplicate key", ["e11000"], id="error code without hyphen"),
        pytest.param("ERROR 1040 (HY000)", ["1040", "hy000"], id="MySQL error"),
        pytest.param("SQLSTATE[40001], sqlstate: 23505", ["40001", "23505"], id="SQLSTATE"),
        pytest.param("connect: ECONNREFUSED, SIGKILL", ["econnrefused", "sigkill"], id="errno and signal names"),
        pytest.param("0x8007000E", ["0x8007000e"], id="hex code"),
        pytest.param("exit code 137", ["137"], id="exit code"),
        pytest.param("HTTP 503, then 502 Bad Gateway and status=429", ["503", "429", "502"], id="status codes"),
        pytest.param("many 5xx", ["5xx"], id="status class"),
        pytest.param("503 rows in 429 ms", [], id="numbers that are no status codes"),
        pytest.param("1.2.3 v2.0 v1beta1 4.5.6-rc1", ["1.2.3", "v2.0", "2.0", "v1beta1", "4.5.6-rc1"], id="versions"),
        pytest.param("version 16.4, not 99.5 percent", ["16.4"], id="two-part version only where said to be one"),
        pytest.param("test_login_timeout", ["test_login_timeout"], id="snake_case"),
        pytest.param("MONGO_URI", ["mongo_uri"], id="environment variable"),
        pytest.param("_emphasis_ and 1_000", [], id="emphasis and digit groups are no snake_case"),
        pytest.param("KubePodCrashLooping OOMKilled", ["kubepodcrashlooping", "oomkilled"], id="CamelCase"),
        pytest.param("PostgreSQL on OpenShift, two VMs", [], id="product names and plurals"),
        pytest.param(
            "spring.datasource.url, foo.png, e.g. this", ["spring.datasource.url", "foo.png"], id="dotted names"
        ),
        pytest.param("__init__.py", ["__init__.py"], id="dunder file"),
        pytest.param("edit /etc/x.conf or ~/.bashrc", ["/etc/x.conf", "x.conf", "~/.bashrc", ".bashrc"], id="paths"),
        pytest.param("read/write and/or 1/2, 2024/01/02", [], id="slashes in prose"),
        pytest.param("GET /healthz", ["/healthz"], id="HTTP path"),
        pytest.param(
            "db-1.prod.example.com:5432",
            ["db-1.prod.example.com:5432", "db-1.prod.example.com", "db-1", "5432"],
            id="host and port",
        ),
        pytest.param("localhost:8080", ["localhost:8080", "8080"], id="port of a plain host"),
        pytest.param("at z(Server.java:17)", ["server.java:17", "server.java"], id="line of a stack trace"),
        pytest.param("we see MISCONF everywhere, WARNING", ["misconf"], id="an error's own word"),
        pytest.param("listens on port 5432", ["5432"], id="port said in words"),
        pytest.param("at 12:30 or 10:15:00 on 2024-01-02T10:00:00Z", [], id="times"),
        pytest.param("10.0.0.1:5432", ["10.0.0.1:5432", "10.0.0.1", "5432"], id="IPv4 and port"),
        pytest.param("10.0.0.0/8", ["10.0.0.0/8", "10.0.0.0"], id="CIDR"),
        pytest.param("fe80::1 and [2001:db8::1]:443", ["fe80::1", "2001:db8::1"], id="IPv6"),
        pytest.param(
            "nginx:1.25.3-alpine postgres:16.4", ["nginx:1.25.3-alpine", "1.25.3-alpine", "postgres:16.4"], id="images"
        ),
        pytest.param("rm --force -n prod -rf", ["--force", "-n", "-rf"], id="flags"),
        pytest.param("--grace-period=0", ["--grace-period"], id="flag with a value"),
        pytest.param("- item -- aside -5", [], id="dashes that are no flags"),
        pytest.param("read-only, up-to-date", [], id="hyphenated prose"),
        pytest.param("3f2504e0-4f89-11d3-9a0c-0305e82c3301", ["3f2504e0-4f89-11d3-9a0c-0305e82c3301"], id="UUID"),
        pytest.param("instance:node_cpu:rate1m", ["instance:node_cpu:rate1m", "node_cpu"], id="recording rule"),
        pytest.param(
            "https://x.example.com/a/b_c?q=1",
            ["https://x.example.com/a/b_c", "x.example.com", "/a/b_c", "b_c"],
            id="URL",
        ),
    ],
)
def test_finds_exactly_the_identifiers(text: str, expected: list[str]) -> None:
    assert identifiers(text) == expected


def test_a_ticket_shares_nothing_with_the_ticket_whose_number_it_begins() -> None:
    assert not set(identifiers("PROJ-12")) & set(identifiers("PROJ-123 feature/PROJ-123-fix PROJ-120"))


@pytest.mark.parametrize("length", [7, 8, 10, 12, 40])
def test_an_abbreviated_hash_is_among_the_identifiers_of_the_full_one(length: int) -> None:
    assert SHA[:length] in identifiers(f"fixed by {SHA}")
    assert set(identifiers(SHA[:length])) <= set(identifiers(SHA))


@given(st.text(alphabet=st.sampled_from("aB1_-./:#@~+ \n=[Zx5é"), max_size=200))
def test_identifiers_occur_verbatim_once_each_and_bounded(text: str) -> None:
    found = identifiers(text)
    assert len(found) == len(set(found)) <= MAX_IDENTIFIERS
    for identifier in found:
        assert identifier in text.casefold()
        assert 1 < len(identifier) <= MAX_IDENTIFIER_LENGTH


@given(st.text(max_size=300))
def test_any_text_is_accepted(text: str) -> None:
    identifiers(text)
    searchable_text(text)


def test_more_identifiers_than_the_bound_are_cut() -> None:
    assert len(identifiers(" ".join(f"OPS-{n}" for n in range(10_000)))) == MAX_IDENTIFIERS


def test_short_parts_of_an_over_long_path_are_still_found() -> None:
    assert identifiers("/" + "directory/" * 30 + "db_main.conf") == ["db_main.conf", "db_main"]


HOSTILE = ["1", "[", "(", "a", "A", "Aa", "-", "a-", "/", "a/", ".a", "::", "a_", "1 ", "http ", "status code ", "\\"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_input_takes_linear_time(unit: str) -> None:
    def work(size: int) -> None:
        text = unit * (size // len(unit))
        identifiers(text)
        searchable_text(text)

    assert_linear(work, 100_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("photo-2024.jpg", "photo 2024 jpg"),
        ("a/b", "a b"),
        ("test_login_timeout", "test login timeout"),
        ("KubeAPIDown", "KubeAPIDown Kube API Down"),
        ("<pod-name> &amp;", "pod name amp"),
        ("don't", "don't"),
        ("VMs", "VMs"),
        ("--force | sort", "force sort"),
    ],
)
def test_parts_become_words(text: str, words: str) -> None:
    assert searchable_text(text).split() == words.split()


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("KubePodNotReady fires", "Kube Pod Not Ready fires"),
        ("etcdMembersDown", "etcd Members Down"),
        ("PostgreSQL and two VMs", "PostgreSQL and two VMs"),
        ("max_connections, ORA-00600", "max_connections, ORA-00600"),
        ("`KubeAPIDown`", "`Kube API Down`"),
    ],
)
def test_names_become_readable_for_a_model(text: str, readable: str) -> None:
    assert split_camel_case(text) == readable


def test_names_whose_parts_are_words_too() -> None:
    text = "KubePodCrashLooping again: kubepodcrashlooping, PostgreSQL, VMs, plain"
    names = camel_case_names(text)
    assert names == ["kubepodcrashlooping", "postgresql"]
    assert all(f"{name} " in searchable_text(text).casefold() for name in names)
