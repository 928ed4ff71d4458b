"""Hub ids are found in the local hub cache; only a pull asks the hub."""

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import tiny_checkpoint

from completiond.errors import DownloadError, ModelCorrupt, ModelMissing
from completiond.model import store


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPLETIOND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def test_a_hub_id_in_the_local_hub_cache_resolves_and_verifies(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=f"completiond models pull {tiny_checkpoint.HUB_ID}"):
        store.resolve(tiny_checkpoint.HUB_ID)
    blob = tiny_checkpoint.snapshot(tmp_path)
    assert store.resolve(tiny_checkpoint.HUB_ID).architecture == "qwen2"
    assert store.installed() == (store.verify(tiny_checkpoint.HUB_ID),)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    with pytest.raises(ModelCorrupt, match="wrong checksum"):
        store.verify(tiny_checkpoint.HUB_ID)


def test_a_hub_model_is_removed_from_the_hub_cache(tmp_path: Path) -> None:
    blob = tiny_checkpoint.snapshot(tmp_path)
    size = blob.stat().st_size
    assert store.remove(tiny_checkpoint.HUB_ID) >= size and not blob.exists()
    with pytest.raises(ModelMissing):
        store.remove(tiny_checkpoint.HUB_ID)


def test_pulling_from_the_hub_without_a_network_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(
        DownloadError, match=f"cannot be reached to fetch `{tiny_checkpoint.HUB_ID}`"
    ):
        store.pull(tiny_checkpoint.HUB_ID)


def test_only_pull_asks_the_hub_and_never_for_pickles_or_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    real = huggingface_hub.snapshot_download

    def spy(name: str, **how: Any) -> str:
        asked.append(how)
        if not how.get("local_files_only"):
            tiny_checkpoint.snapshot(tmp_path)
        return str(real(name, cache_dir=how["cache_dir"], local_files_only=True))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", spy)
    assert store.pull(tiny_checkpoint.HUB_ID).name == tiny_checkpoint.HUB_ID
    patterns = asked[0]["allow_patterns"]
    assert all(p.endswith((".safetensors", ".json")) for p in patterns)
    store.resolve(tiny_checkpoint.HUB_ID)
    store.verify(tiny_checkpoint.HUB_ID)
    assert all(how.get("local_files_only") for how in asked[1:])
    assert all(how["allow_patterns"] == patterns for how in asked)


@pytest.mark.parametrize("kind", ["ConnectError", "ReadTimeout", "RemoteProtocolError"])
def test_a_connection_to_the_hub_that_breaks_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    transport = sys.modules[huggingface_hub.errors.HTTPError.__module__.split(".")[0]]

    def fail(*_: Any, **__: Any) -> None:
        raise getattr(transport, kind)("cut")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(DownloadError, match=r"broke while fetching .* \(cut\); pull again"):
        store.pull(tiny_checkpoint.HUB_ID)
