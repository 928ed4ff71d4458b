"""A model is in the cache whole or not at all, is found without the network, and goes cleanly."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import tiny_gguf
import tiny_index
import tokenizers
import torch
import transformers

from completiond.errors import (
    CacheError,
    ModelCorrupt,
    ModelMissing,
    ModelUnsupported,
    UnknownModel,
)
from completiond.model import registry, store
from completiond.model.registry import IndexModel


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a hub cache of the test's own, and no network at all."""
    monkeypatch.setenv("COMPLETIOND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    tiny_index.use(tmp_path / "index", monkeypatch)

    def refuse(*_: Any) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path / "cache"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexModel:
    """A registry model `tiny` in one part."""
    data = tiny_gguf.write(tmp_path / "source.gguf").read_bytes()
    model = tiny_index.publish(tmp_path / "index", data, 1)
    monkeypatch.setitem(registry._BY_NAME, "tiny", model)
    return model


@pytest.fixture
def at_hand(cache: Path, tiny: IndexModel) -> IndexModel:
    """The same with its source in the cache already, as a killed conversion leaves it."""
    source = cache / "work/tiny/whole.gguf"
    source.parent.mkdir(parents=True)
    source.write_bytes((cache.parent / "source.gguf").read_bytes())
    return tiny


# Pull


@pytest.mark.slow
def test_pull_brings_a_model_that_resolves_and_leaves_only_the_model(
    cache: Path, tiny: IndexModel
) -> None:
    with pytest.raises(ModelMissing, match="completiond models pull tiny"):
        store.resolve("tiny")
    files = store.pull("tiny")
    assert files == store.resolve("tiny") == store.verify("tiny")
    assert files.directory == cache / "models/tiny" and files.vocab_size == tiny_gguf.REAL
    assert len(files.eos_ids) == 2 and files.context == 512 and files.architecture == "qwen2"
    assert files.bytes == (files.directory / "model.safetensors").stat().st_size
    assert {f.name for f in files.directory.iterdir()} == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert not list((cache / "work").iterdir())
    manifest = json.loads((files.directory / "manifest.json").read_text())
    assert manifest["source"] == {"sha256": tiny.sha256, "size": tiny.size}
    assert store.installed() == (files,)
    model = transformers.AutoModelForCausalLM.from_pretrained(files.directory)
    assert model.get_input_embeddings().weight.shape[0] == files.vocab_size
    assert model.dtype == torch.bfloat16


def test_a_second_pull_fetches_nothing(
    at_hand: IndexModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = store.pull("tiny")
    monkeypatch.setattr(subprocess, "Popen", None)
    assert store.pull("tiny") == files


@pytest.mark.slow
def test_after_kill_9_in_the_conversion_pull_works_and_leftovers_go(
    cache: Path, tiny: IndexModel, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BLOCK_IN_CONVERSION, str(tmp_path / "index"), str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"converting\n"
        child.send_signal(signal.SIGKILL)
    with pytest.raises(ModelMissing):
        store.resolve("tiny")
    assert list((cache / "work").glob("new-*/model.safetensors"))
    assert store.pull("tiny") == store.verify("tiny")
    assert not list((cache / "work").iterdir())


_BLOCK_IN_CONVERSION = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    import tiny_index
    from completiond.model import registry, store
    data = (Path(sys.argv[2]) / "source.gguf").read_bytes()
    registry._BY_NAME["tiny"] = tiny_index.publish(Path(sys.argv[1]), data, 1)

    def progress(done, total, what):
        if what.startswith("converting"):
            print("converting", flush=True)
            time.sleep(60)

    store.pull("tiny", progress)
    """
)


def test_a_damaged_source_leaves_nothing_behind(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_index.publish(tmp_path / "index", b"GGUF" + bytes(1000), 1)
    monkeypatch.setitem(registry._BY_NAME, "tiny", model)
    with pytest.raises((ModelCorrupt, ModelUnsupported)):
        store.pull("tiny")
    assert not list((cache / "work").glob("new-*")) and not store.installed()


def test_too_small_a_disk_is_said_first(
    tiny: IndexModel, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._BY_NAME, "tiny", replace(tiny, converted=10**16))
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(CacheError, match="GB free"):
        store.pull("tiny")


@pytest.mark.parametrize("operation", [os.mkdir, os.open])
def test_a_read_only_cache_is_one_sentence(
    tiny: IndexModel, cache: Path, monkeypatch: pytest.MonkeyPatch, operation: Any
) -> None:
    def refuse(path: Any, *rest: Any, **named: Any) -> Any:
        if str(path).startswith(str(cache)):
            raise OSError(30, "Read-only file system", str(path))
        return operation(path, *rest, **named)

    cache.parent.mkdir(exist_ok=True)
    if operation is os.open:
        cache.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, operation.__name__, refuse)
        with pytest.raises(CacheError, match="cannot be written to; make it writable or set COMPL"):
            store.pull("tiny")


def test_an_installed_model_is_usable_from_a_cache_that_cannot_be_written(
    at_hand: IndexModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = store.pull("tiny")
    monkeypatch.setattr(store, "lock", None)
    assert store.pull("tiny") == store.resolve("tiny") == store.verify("tiny") == files


def test_a_conversion_without_its_packages_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_gguf.write(tmp_path / "m.gguf")
    monkeypatch.setitem(sys.modules, "completiond.model.convert", None)
    monkeypatch.delattr("completiond.model.convert", raising=False)
    with pytest.raises(ModelUnsupported, match=r"install `completiond\[serve\]`"):
        store.resolve(str(source))


# Damage, age, removal


@pytest.mark.slow
def test_verify_finds_one_changed_byte_and_resolve_a_short_file(tiny: IndexModel) -> None:
    weights = store.pull("tiny").directory / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ModelCorrupt, match="model.safetensors has the wrong checksum; run `compl"):
        store.verify("tiny")
    assert store.pull("tiny") == store.verify("tiny")  # pull does not take it for present
    weights.write_bytes(data[:-1])
    with pytest.raises(ModelCorrupt, match="model.safetensors is missing or cut short"):
        store.resolve("tiny")
    assert not store.installed()


def test_a_damaged_manifest_is_one_sentence(at_hand: IndexModel) -> None:
    manifest = store.pull("tiny").directory / "manifest.json"
    for text in ("", "[]", "{}"):
        manifest.write_text(text)
        with pytest.raises(ModelCorrupt, match="completiond models pull tiny"):
            store.resolve("tiny")


@pytest.mark.slow
def test_another_converter_asks_for_a_pull_which_converts_again(
    tiny: IndexModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.pull("tiny")
    monkeypatch.setattr(store, "CONVERTER", store.CONVERTER + 1)
    with pytest.raises(ModelMissing, match="by another version .*`completiond models pull tiny`"):
        store.resolve("tiny")
    store.pull("tiny")
    manifest = json.loads((store.resolve("tiny").directory / "manifest.json").read_text())
    assert manifest["converter"] == store.CONVERTER


def test_remove_frees_the_model_and_its_parts(cache: Path, at_hand: IndexModel) -> None:
    files = store.pull("tiny")
    (cache / "work/tiny").mkdir()
    (cache / "work/tiny/001-x.part").write_bytes(bytes(1000))
    assert store.remove("tiny") > files.bytes + 1000
    assert not (cache / "models/tiny").exists() and not (cache / "work/tiny").exists()
    with pytest.raises(ModelMissing, match="nothing to remove"):
        store.remove("tiny")


def test_remove_never_leaves_the_models(at_hand: IndexModel) -> None:
    store.pull("tiny")
    for name in ("..", "../..", "/", ".", "", "tiny/..", "tiny/../../models"):
        with pytest.raises((ModelMissing, UnknownModel)):
            store.remove(name)
    store.verify("tiny")


# Local files


def test_a_local_gguf_is_converted_once_and_found_by_its_checksum(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    source = tiny_gguf.write(tmp_path / "mine/m.gguf", "llama")
    files = store.resolve(str(source))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert files.directory == cache / f"models/gguf-{digest[:16]}" and source.exists()
    monkeypatch.setattr("completiond.model.convert.convert", None)
    assert store.resolve(str(tmp_path / "mine")).directory == files.directory
    assert store.resolve(files.directory.name).bytes == files.bytes
    copy = Path(shutil.copy(source, tmp_path / "copy.gguf"))
    assert store.resolve(str(copy)).directory == files.directory
    monkeypatch.setattr(store, "file_sha256", None)  # the second time not even the sum is taken
    assert store.resolve(str(copy)).directory == files.directory


def test_a_local_gguf_that_changed_or_an_old_conversion_is_converted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny_gguf.write(tmp_path / "m.gguf", seed=1)
    first = store.resolve(str(source))
    tiny_gguf.write(source, seed=2)
    second = store.resolve(str(source))
    assert first.directory != second.directory
    monkeypatch.setattr(store, "CONVERTER", store.CONVERTER + 1)
    assert store.resolve(str(source)).directory == second.directory
    assert store.remove(str(source)) > 0 and source.exists()
    with pytest.raises(ModelMissing):
        store.remove(str(source))


def test_several_ggufs_in_a_directory_must_be_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        tiny_gguf.write(tmp_path / f"{name}.gguf")
    with pytest.raises(ModelUnsupported, match=r"several GGUF files; name one, as .*a\.gguf"):
        store.resolve(str(tmp_path))


@pytest.mark.parametrize("ask", [store.resolve, store.pull, store.verify, store.remove])
def test_an_unknown_name_is_answered_with_the_nearest(ask: Any) -> None:
    with pytest.raises(UnknownModel, match=r"did you mean `qwen2\.5-coder-0\.5b`\?"):
        ask("qwen2.5-coder-05b")


# Real weights


@pytest.mark.model
def test_the_real_small_model_fills_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPLETIOND_CACHE")
    try:
        files = store.verify("qwen2.5-coder-0.5b")
    except ModelMissing as exc:
        pytest.skip(str(exc))
    assert (files.vocab_size, files.eos_ids) == (151_665, (151_643, 151_645))
    assert files.bytes == registry.INDEX[0].converted
    tokenizer = tokenizers.Tokenizer.from_file(str(files.directory / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(files.directory)
    ids = tokenizer.encode(
        "<|fim_prefix|>def fibonacci(n):\n    if n < 2:\n        return n\n    return "
        "<|fim_suffix|>\n\nprint(fibonacci(10))\n<|fim_middle|>"
    ).ids
    out = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, len(ids) :]
    assert tokenizer.decode(out.tolist()).startswith("fibonacci(n-1) + fibonacci(n-2)")
