from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from cairn_shared.errors import InvalidInput
from cairn_shared.repositories.globs import compile_pattern, selects
from cairn_shared.repositories.hosts import Hosts, RepositorySettings
from cairn_shared.repositories.model import Declaration, page_url, runbook_id
from cairn_shared.repositories.urls import canonical
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/*.md", "a.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("*.md", "a/b.md", True),
        ("docs/*.md", "docs/a.md", True),
        ("docs/*.md", "docs/x/a.md", False),
        ("docs/*.md", "more/docs/a.md", False),
        ("docs/**", "docs/x/a.md", True),
        ("docs/", "docs/x/a.md", True),
        ("docs/", "more/docs/a.md", True),
        ("/README.md", "x/README.md", False),
        ("/README.md", "README.md", True),
        ("[!a]*.md", "b.md", True),
        ("[!a]*.md", "a.md", False),
        ("a?.md", "ab.md", True),
        ("a?.md", "a/.md", False),
        ("**/archive/**", "archive/b.md", True),
        ("a+(b).md", "a+(b).md", True),
        ("a.md", "axmd", False),
        ("[a--z].md", "z.md", True),
        ("[&&||~~].md", "&.md", True),
    ],
)
def test_patterns_match_as_in_gitignore(pattern: str, path: str, matches: bool) -> None:
    assert compile_pattern(pattern).matches(path) is matches


@given(st.text("ab[]!^-*?/&|~.\\é", min_size=1, max_size=40), st.text(max_size=60))
def test_any_pattern_is_compiled_or_refused(pattern: str, path: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert selects(path, [pattern], []) in {True, False}


@pytest.mark.parametrize(
    "url",
    [
        "https://Example.org/Ops/Runbooks.git",
        "https://user@example.org/ops/runbooks",
        "git@example.org:ops/runbooks.git",
        "ssh://git@example.org:22/ops/runbooks/",
        "git://example.org/ops/runbooks.git",
        "https://example.org:443/ops/runbooks",
    ],
)
def test_all_spellings_of_a_repository_are_one(url: str) -> None:
    assert canonical(url) == "example.org/ops/runbooks"


def test_other_ports_and_local_paths_stay_apart() -> None:
    assert canonical("http://127.0.0.1:3300/ops/x.git") == "127.0.0.1:3300/ops/x"
    assert canonical("file:///srv/Git/x.git") == "file:///srv/Git/x"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=80), unique=True))
def test_every_path_has_an_id_of_its_own_that_an_id_may_be(paths: list[str]) -> None:
    import re

    made = [runbook_id("ops", path) for path in paths]
    assert len(set(made)) == len(paths)
    assert all(re.fullmatch(RUNBOOK_ID_PATTERN, one) for one in made)


def test_ids_of_usual_paths_can_be_read() -> None:
    assert runbook_id("ops", "alerts/etcd/etcdNoLeader.md") == "ops.alerts.etcd.etcdNoLeader"
    assert runbook_id("ops", "a/b.md") != runbook_id("ops", "a.b.md") != runbook_id("ops", "a-b.md")


@pytest.mark.parametrize(
    "change",
    [
        {"url": "ssh://git@example.org/x"},
        {"url": "https://user:secret@example.org/x"},
        {"url": "https://example.org"},
        {"url": "https://example.org/a/../b"},
        {"url": "https://example.org/x?token=1"},
        {"url": "file://host/x"},
        {"url": "javascript:alert(1)"},
        {"name": "Ops"},
        {"name": "a/b"},
        {"branch": "-x"},
        {"branch": ""},
        {"include": []},
        {"include": ["["]},
        {"provider": "bitbucket"},
        {"unknown": 1},
    ],
)
def test_a_wrong_declaration_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Declaration.model_validate({"name": "ops", "url": "https://example.org/ops/x", **change})


class TestHosts:
    def access(self, url: str, provider: Any = "auto", **settings: Any) -> Any:
        return Hosts(RepositorySettings(**settings)).access(Declaration(name="ops", url=url, provider=provider))

    def test_known_hosts_are_read_by_their_api_with_their_own_token(self) -> None:
        tokens = {"github_token": SecretStr("gh"), "gitlab_token": SecretStr("gl"), "gitea_token": SecretStr("gt")}
        settings = {**tokens, "gitea_api_url": "https://forge.acme.example/api/v1"}
        found = self.access("https://github.com/a/b.git", **settings)
        assert (found.provider, found.base, found.path) == ("github", "https://api.github.com", "a/b")
        assert found.token.get_secret_value() == "gh"
        assert self.access("https://gitlab.com/g/s/p", **settings).token.get_secret_value() == "gl"
        assert self.access("https://forge.acme.example/a/b", **settings).token.get_secret_value() == "gt"

    def test_a_host_that_is_not_configured_is_never_contacted(self) -> None:
        for provider in ("auto", "git", "github", "gitea"):
            with pytest.raises(InvalidInput):
                self.access("https://evil.example/a/b", provider, github_token=SecretStr("gh"))
        with pytest.raises(InvalidInput, match="REPO_HOSTS"):
            self.access("http://169.254.169.254/latest/meta-data", repo_hosts="git.acme.example")

    def test_a_listed_host_is_cloned_without_anybodys_token(self) -> None:
        found = self.access(
            "https://git.acme.example/a/b", repo_hosts=" git.acme.example , other", github_token=SecretStr("gh")
        )
        assert (found.provider, found.base, found.token) == ("git", "https://git.acme.example/a/b", None)

    def test_a_port_is_part_of_the_host(self) -> None:
        with pytest.raises(InvalidInput):
            self.access("https://git.acme.example:8443/a/b", repo_hosts="git.acme.example")

    def test_local_repositories_need_their_setting(self) -> None:
        with pytest.raises(InvalidInput, match="ALLOW_LOCAL_REPOS"):
            self.access("file:///srv/x")
        assert self.access("file:///srv/x", allow_local_repos=True).path == "/srv/x"


def test_pages_of_each_forge() -> None:
    declaration = Declaration(name="ops", url="https://h.example/a/b.git", branch="feature/x")
    assert page_url(declaration, "github", "d/ü.md") == "https://h.example/a/b/blob/feature/x/d/%C3%BC.md"
    assert page_url(declaration, "gitlab", "d.md") == "https://h.example/a/b/-/blob/feature/x/d.md"
    assert page_url(declaration, "gitea", "d.md") == "https://h.example/a/b/src/branch/feature/x/d.md"
    assert page_url(declaration, "git", "d.md") is None
