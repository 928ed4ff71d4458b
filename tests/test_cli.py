"""The command line as a person uses it: answers, and one clear sentence for every mistake."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from completiond.commands import place, view
from completiond.commands.doctor import draft_advice
from completiond.errors import RequestError
from completiond.version import __version__

SCRIPT = json.dumps({"answers": ["return 1\n"], "tokens_per_pass": 64})
SLOW = json.dumps({"answers": ["x" * 4000], "pass_ms": 60.0})
PATIENCE_S = 20.0
Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("apart")


@contextmanager
def daemon(*arguments: str, script: str = SCRIPT) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "completiond", "serve", "--scripted", script, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "stops it." not in (line := process.stdout.readline()):
            assert line, process.stderr and process.stderr.read()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def source(text: str | bytes, name: str = "a.py") -> Path:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Path(name)


# -- answers --------------------------------------------------------------------------------------


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"completiond {__version__}\n", "")


def test_completes_in_place_without_a_daemon_and_says_so(run: Run) -> None:
    source("def f():\n    \n\nf()\n")
    code, out, err = run("complete", "a.py:2:5", "--scripted", SCRIPT)
    assert code == 0
    assert "    2 │     ⟦return 1⟧" in out and "    4 │ f()" in out
    assert "no drafts were tried" in out and "no daemon" in out
    assert "No daemon runs here" in err


@pytest.mark.slow
def test_a_daemon_is_asked_and_reports_itself(run: Run) -> None:
    source("def f():\n    ")
    with daemon() as process:
        code, out, err = run("complete", "a.py:2:5")
        assert (code, err) == (0, "") and "⟦return 1⟧" in out and "from the daemon at" in out
        code, out, _ = run("why")
        assert code == 0 and "An answer was shown." in out
        code, _, err = run("why", "99")
        assert code == 1 and "Nobody remembers request 99" in err
        code, out, _ = run("status", "--json")
        assert code == 0 and json.loads(out)["state"] == "ready"
        code, out, _ = run("status")
        assert "scripted is ready" in out and "1 so far" in out
        code, out, _ = run("complete", "a.py:2:5", "--no-daemon", "--scripted", SCRIPT)
        assert "from an engine in this process" in out
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_json_and_stream_are_one_object_a_line(run: Run) -> None:
    source("def f():\n    ")
    script = json.dumps({"answers": ["return 1\n"], "pass_ms": 10.0})
    arguments = ("complete", "a.py:2:5", "--no-daemon", "--json", "--scripted", script)
    code, out, _ = run(*arguments, "--stream")
    *partials, final = [json.loads(line) for line in out.splitlines()]
    assert [step["partial"] for step in partials][:3] == ["r", "re", "ret"]
    assert final["candidates"][0]["text"] == "return 1" and final["reason"] == "ok"
    code, out, _ = run(*arguments)
    assert len(out.splitlines()) == 1


@pytest.mark.slow
def test_a_second_daemon_on_the_endpoint_is_refused(run: Run) -> None:
    with daemon():
        code, _, err = run("serve", "--scripted", SCRIPT)
        assert code == 1
        assert "already serves" in err.splitlines()[-1]


@pytest.mark.slow
def test_status_waits_for_a_daemon(run: Run) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "completiond", "status", "--wait", "20"], stdout=subprocess.PIPE
    )
    with daemon():
        out, _ = waiting.communicate(timeout=PATIENCE_S)
        assert waiting.returncode == 0 and b"is ready" in out


def test_keys_are_made_shown_and_let_in(run: Run, tmp_path: Path) -> None:
    code, _, err = run("keys", "show")
    assert code == 1 and err.count("\n") == 1 and "completiond keys new" in err
    code, out, _ = run("keys", "new")
    assert code == 0 and "let in" in out
    assert (tmp_path / "config" / "keys" / "daemon.key").stat().st_mode & 0o777 == 0o600
    code, _, err = run("keys", "new")
    assert code == 1 and "--replace" in err
    public = next(line.split()[1] for line in out.splitlines() if "client" in line)
    assert run("keys", "authorise", public, "laptop")[0] == 0
    said = run("keys", "show")[1]
    assert "laptop" in said
    for line in said.splitlines()[-2:]:  # as a shell takes them
        words = shlex.split(line.split(":  ", 1)[1])
        words = [word.replace("HOST:PORT", "127.0.0.1:46138") for word in words]
        assert run(*words[1:])[0] == 0, line
    code, _, err = run("keys", "authorise", "short", "laptop")
    assert code == 1 and "40 characters" in err


@pytest.mark.slow
def test_a_daemon_on_tcp_is_asked_with_keys(run: Run) -> None:
    source("def f():\n    ")
    run("keys", "new")
    with daemon("--endpoint", "tcp://127.0.0.1:46137"):
        code, out, _ = run("complete", "a.py:2:5", "--endpoint", "tcp://127.0.0.1:46137")
        assert code == 0 and "⟦return 1⟧" in out


@pytest.mark.slow
def test_a_quiet_daemon_says_where_it_is_and_how_it_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    endpoint = f"ipc://{tmp_path}/d.sock"
    command = [sys.executable, "-m", "completiond", "serve", "--quiet", "--scripted", SCRIPT]
    with subprocess.Popen(
        [*command, "--endpoint", endpoint], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(4)]
        process.terminate()
        assert process.stdout.read() == ""
    names = [line.split()[0] for line in said]
    assert names == ["completiond", "endpoint", "dashboard", "SIGTERM"], said
    assert endpoint in said[1]


def test_models_are_listed_with_their_state(run: Run) -> None:
    code, out, _ = run("models", "list")
    assert code == 0 and "qwen2.5-coder-0.5b" in out
    assert "not pulled: 0.5 GB, 1.3 GB on disk" in out
    assert "bigcode/starcoder2-3b" in run("models", "list", "--all")[1]


# -- mistakes -------------------------------------------------------------------------------------

LINES = "one\ntwo\n"
MISTAKES = [
    (("complete", "none.py:1:1"), "There is no file none.py."),
    (("complete", ".:1:1"), ". is a directory; name a file in it."),
    (("complete", "a.py:9:1"), "a.py has 3 lines, so there is no line 9."),
    (("complete", "a.py:1:9"), "the column may be 1 to 4, not 9."),
    (("complete", "nul.py:1:1"), "NUL bytes"),
    (("complete", "picture.png:1:1"), "NUL bytes, so it is not text"),
    (("complete", "latin.py:1:1"), "is not UTF-8 (byte 0xe9 in line 2)"),
    (("complete", "wide.py:1:1"), "is UTF-16"),
    (("status",), "start one with `completiond serve`."),
    (("why", "last"), "start one with `completiond serve`."),
    (("why",), "start one with `completiond serve`."),
    (("why", "first"), "give its number, or `last`."),
    (("why", "9" * 5_000), "give its number, or `last`."),
    (("why", str(1 << 63)), "give its number, or `last`."),
    (("serve",), "run `completiond models pull qwen2.5-coder-0.5b`"),
    (("serve", "--model", "qwen2.5-coder-0.5"), "did you mean `qwen2.5-coder-0.5b`?"),
    (("complete", "a.py:1:1"), "run `completiond models pull"),
    (("doctor",), "run `completiond models pull"),
    (("serve", "--endpoint", "nowhere"), "write ipc:///ABSOLUTE/PATH or tcp://HOST:PORT"),
    (("serve", "--endpoint", "tcp://127.0.0.1:46139", "--scripted", "{}"), "keys new"),
    (("serve", "--speculation", "magic"), "engine.speculation must be one of"),
    (("serve", "--threads", "-3"), "--threads: engine.threads must be between"),
    (("serve", "--model", ""), "--model: model.name is empty"),
    (("serve", "--http", "8095"), "--http: http.port is set without http.key"),
    (("status", "--config", "bad.toml"), "did you mean `engine.threads`?"),
    (("status", "--config", "broken.toml"), "cannot be read as TOML"),
    (("models", "verify", "qwen2.5-coder-0.5b"), "is not in the cache"),
    (("models", "remove", "qwen2.5-coder-0.5b"), "there is nothing to remove"),
    (("models", "remove", "whatever"), "There is no model"),
    (("models", "pull", "whatever"), "There is no model"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES, ids=lambda value: str(value)[:50])
def test_a_mistake_is_one_sentence(run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    source(LINES)
    source(b"a\0b", "nul.py")
    source(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "picture.png")
    source("# ok\n# caf\xe9\n".encode("latin-1"), "latin.py")
    source("a = 1\n".encode("utf-16"), "wide.py")
    source("[engine]\nthreds = 2\n", "bad.toml")
    source("[engine\n", "broken.toml")
    code, _, err = run(*arguments)
    assert code == 1
    last = err.splitlines()[-1]
    assert sentence.replace("engine.threads`?", "threads`?") in last and last.endswith((".", "?"))
    assert "Traceback" not in err


USAGE = [
    ("complete",),
    ("complete", "a.py"),
    ("complete", "a.py:0:1"),
    ("complete", "a.py:x:1"),
    ("complete", "a.py:1:1", "--encoding", "klingon"),
    ("serve", "--cpu", "--gpu", "0"),
    ("serve", "--gpu", "-1"),
    ("serve", "--config", "none.toml"),
    ("serve", "--scripted", "{"),
    ("unknown",),
    ("serve", "--unknown"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_exits_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    source(LINES)
    code, _, err = run(*arguments)
    assert code == 2 and "Traceback" not in err


def test_nothing_is_fetched_by_serve(run: Run, tmp_path: Path) -> None:
    run("serve")
    assert not list((tmp_path / "cache").rglob("*.part"))
    assert not (tmp_path / "cache" / "work").exists()


@pytest.mark.slow
def test_without_the_extra_serve_and_doctor_say_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    source(LINES)
    alone = (("serve",), ("doctor",), ("models", "pull"), ("bench", "acceptance"), ("audit",))
    for command in (("complete", "a.py:1:1"), *alone):
        code, _, err = run(*command)
        assert code == 1 and "pip install 'completiond[serve]'" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("complete", "a.py:1:1", "--json", "--stream", "--no-daemon", "--scripted", SLOW), 130),
        (("complete", "a.py:1:1", "--json", "--stream"), 130),
        (("serve", "--endpoint", "ipc://{}/run/other.sock", "--scripted", SLOW), 0),
    ],
    ids=["engine of its own", "daemon", "serve"],
)
def test_ctrl_c_is_quiet(arguments: tuple[str, ...], code: int) -> None:
    """While an answer comes: quiet, 130. A daemon has been ended as it should be: 0."""
    source(LINES)
    command = [
        sys.executable,
        "-m",
        "completiond",
        *(a.replace("{}", os.getcwd()) for a in arguments),
    ]
    with daemon(script=SLOW):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a terminal's
        )
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert "Traceback" not in err and "Error" not in err


# -- the place ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "cursor"),
    [
        ("", 1, 1, 0),
        ("abc", 1, 4, 3),
        ("a\r\nb\rc\nd", 2, 1, 3),
        ("a\r\nb\rc\nd", 3, 2, 6),
        ("a\x0cb\u2028c\n", 1, 6, 5),
        ("😀é\n", 1, 3, 2),
        ("a\n", 2, 1, 2),
    ],
)
def test_a_cursor_counts_lines_and_characters_as_editors_do(
    text: str, line: int, column: int, cursor: int
) -> None:
    assert place.read(source(text), line, column).cursor == cursor


def test_a_byte_order_mark_is_not_a_character() -> None:
    assert place.read(source(b"\xef\xbb\xbfab"), 1, 3).text == "ab"


def test_another_encoding_may_be_named() -> None:
    assert place.read(source("é".encode("latin-1")), 1, 2, "latin-1").text == "é"


def test_a_name_may_hold_colons() -> None:
    assert place.parse("a:b.py:3:4") == (Path("a:b.py"), 3, 4)


@pytest.mark.parametrize("make", [os.mkfifo, lambda name: Path(name).touch(0o000)])
def test_what_cannot_be_read_is_said(make: Callable[[str], None]) -> None:
    make("odd.py")
    if os.access("odd.py", os.R_OK) and Path("odd.py").is_file():
        pytest.skip("root may read everything")
    with pytest.raises(RequestError):
        place.read(Path("odd.py"), 1, 1)


@pytest.mark.slow
def test_awkward_files_complete_or_say_why(run: Run) -> None:
    awkward = Path(__file__).parents[2] / "shared" / "data" / "awkward"
    if not awkward.is_dir():
        pytest.skip("the awkward files are not beside this checkout")
    for file in sorted(awkward.iterdir()):
        code, out, err = run("complete", f"{file}:1:1", "--no-daemon", "--scripted", SCRIPT)
        assert "Traceback" not in err, file
        assert (code == 0 and "⟦" in out) or (code == 1 and file.name in err), file


def test_a_long_file_and_a_long_line_are_no_trouble(run: Run) -> None:
    source("x = 1\n" * 28_000 + "y")
    assert run("complete", "a.py:28001:2", "--no-daemon", "--scripted", SCRIPT)[0] == 0
    source("x=1;" * 50_000)
    code, out, _ = run("complete", "a.py:1:100001", "--no-daemon", "--scripted", SCRIPT)
    assert code == 0 and max(map(len, out.splitlines())) < 400


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    at = place.read(source("a\x1b[31m\n"), 1, 7)
    assert "\x1b" not in view.in_place(at, "\x1b]0;title\x07", colour=False).plain


# -- the doctor -----------------------------------------------------------------------------------


def test_draft_advice_compares_costs() -> None:
    cheap = draft_advice("small", 10.0, {1: 100.0, 32: 131.0})
    assert "can pay" in cheap and "costs 10%" in cheap and "more than 11%" in cheap
    dear = draft_advice("small", 80.0, {1: 100.0, 32: 131.0})
    assert "does not pay" in dear and "81%" in dear
