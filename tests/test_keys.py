"""CURVE key files: made private, read strictly."""

import os
import stat
from pathlib import Path

import pytest

from completiond import keys
from completiond.errors import ConfigError


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keys.new_keys(tmp_path / "keys")
    return tmp_path / "keys"


def test_new_keys_are_readable_by_their_user_only(where: Path) -> None:
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    for file in where.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert {file.name for file in where.iterdir()} == {"daemon.key", "client.key", "authorised"}


def test_new_keys_let_this_user_in_and_nobody_else(where: Path) -> None:
    mine = keys.client_keys("tcp://127.0.0.1:5000", where)
    daemon = keys.server_keys(where)
    assert mine.server == daemon.pair.public
    assert daemon.allows(mine.pair.public)
    assert not daemon.allows(daemon.pair.public)


def test_keys_are_not_overwritten_unless_asked(where: Path) -> None:
    before = keys.server_keys(where).pair
    with pytest.raises(ConfigError, match="already"):
        keys.new_keys(where)
    assert keys.server_keys(where).pair == before
    _, client = keys.new_keys(where, replace=True)
    assert keys.server_keys(where).pair != before
    assert keys.authorised(where) == {client.public: "this-machine"}


def test_a_client_is_authorised_under_one_name(where: Path, tmp_path: Path) -> None:
    _, first = keys.new_keys(tmp_path / "a")
    _, second = keys.new_keys(tmp_path / "b")
    keys.authorise(first.public, "laptop", where)
    keys.authorise(second.public, "laptop", where)
    daemon = keys.server_keys(where)
    assert not daemon.allows(first.public)
    assert daemon.allows(second.public)
    with pytest.raises(ConfigError, match="one word"):
        keys.authorise(first.public, "two words", where)


def test_a_daemon_elsewhere_is_trusted_by_endpoint(where: Path, tmp_path: Path) -> None:
    there, _ = keys.new_keys(tmp_path / "there")
    keys.trust("tcp://10.0.0.5:5000", there.public, where)
    assert keys.client_keys("tcp://10.0.0.5:5000", where).server == there.public
    assert keys.client_keys("tcp://10.0.0.6:5000", where).server != there.public


@pytest.mark.parametrize("bad", ["", "short", "x" * 41, "é" * 40, "'" * 40])
def test_a_malformed_key_is_refused(where: Path, bad: str) -> None:
    with pytest.raises(ConfigError, match="z85"):
        keys.authorise(bad, "laptop", where)


@pytest.mark.parametrize(
    "text",
    ["", "public\n", "public a\nsecret b\n", f"public {'0' * 40}\nsecret {'1' * 40}\n", "\xff"],
)
def test_a_malformed_key_file_is_one_clear_error(where: Path, text: str) -> None:
    (where / "daemon.key").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=r"daemon\.key"):
        keys.server_keys(where)


def test_keys_that_others_can_read_are_refused(where: Path) -> None:
    (where / "daemon.key").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        keys.server_keys(where)


def test_missing_keys_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="completiond keys new"):
        keys.server_keys(tmp_path)


def test_an_unreadable_list_of_clients_lets_nobody_in(where: Path) -> None:
    mine = keys.client_keys("tcp://127.0.0.1:1", where)
    daemon = keys.server_keys(where)
    daemon.authorised_file.write_text("rubbish\n")
    assert not daemon.allows(mine.pair.public)
    daemon.authorised_file.unlink()
    assert not daemon.allows(mine.pair.public)


def test_the_secret_is_not_in_the_repr(where: Path) -> None:
    daemon = keys.server_keys(where)
    assert daemon.pair.secret not in repr(daemon)


def test_keys_live_beside_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPLETIOND_CONFIG", os.fspath(tmp_path / "config.toml"))
    keys.new_keys()
    assert (tmp_path / "keys" / "daemon.key").exists()
    assert keys.server_keys().allows(keys.client_keys("tcp://127.0.0.1:1").pair.public)
