from __future__ import annotations

from pathlib import Path

from cairn_local import secrets_file


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_secrets_are_made_once_kept_and_private(tmp_path: Path) -> None:
    file = tmp_path / "home" / "env"
    first = secrets_file.ensure(file, CAIRN_URL="http://127.0.0.1:8000")
    assert mode(file) == 0o600
    assert set(first) == {*secrets_file.GENERATED, "CAIRN_URL"}
    assert all(len(first[name]) >= 32 for name in secrets_file.GENERATED)
    assert len(set(first.values())) == len(first)
    assert secrets_file.ensure(file, CAIRN_URL="http://127.0.0.1:8000") == first
    assert secrets_file.read(file) == first


def test_the_address_is_updated_and_what_the_user_wrote_stays(tmp_path: Path) -> None:
    file = tmp_path / "env"
    secrets = secrets_file.ensure(file, CAIRN_URL="http://127.0.0.1:8000")
    file.write_text(file.read_text().replace(secrets["GITHUB_WEBHOOK_SECRET"], "mine") + "OWN=kept\n")
    changed = secrets_file.ensure(file, CAIRN_URL="http://127.0.0.1:8123")
    assert changed == {**secrets, "GITHUB_WEBHOOK_SECRET": "mine", "OWN": "kept", "CAIRN_URL": "http://127.0.0.1:8123"}
    assert secrets_file.read(file) == changed


def test_a_file_that_others_could_read_is_made_private_again(tmp_path: Path) -> None:
    file = tmp_path / "env"
    secrets_file.ensure(file)
    file.chmod(0o644)
    secrets_file.ensure(file)
    assert mode(file) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def test_values_may_contain_equals_signs_and_comments_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# A=1\n\nB = a=b=\nnonsense\n")
    assert secrets_file.read(file) == {"B": "a=b="}
