"""The items' own tests, run on a filled hole: pass or not, in a place where little can go wrong.

A process of its own without network (a user and network namespace), in a folder that is removed,
with limits of time, memory and written bytes. Knows how a language is built and run; a language
without its tools here is told apart from a failure.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from infill_items import Item

BUILD_S, RUN_S = 90, 20
"""Seconds of the processor."""
PATIENCE = 5
"""Times as many seconds may pass: the machine may do other things too."""
MEMORY = 2 << 30
"""Bytes of private memory that a test may fill; what is only reserved does not count."""
WRITTEN = 32 << 20
ALONE = ("unshare", "--user", "--net", "--map-root-user")
ASSERTS = "console.assert=(ok,...rest)=>{if(!ok)throw new Error('assert '+rest.join(' '))};\n"
UNKNOWN_CRATES = ("use rand::Rng;", "use regex::Regex;", "use md5;")
"""Crates that the published Rust items name and do not need."""


class Way(NamedTuple):
    """How a program of a language is kept, built and run."""

    file: str
    run: tuple[str, ...]
    build: tuple[str, ...] = ()

    @property
    def tools(self) -> list[str]:
        return [step[0] for step in (self.build, self.run) if step and step[0] != "./m"]


WAYS = {
    "python": Way("m.py", (sys.executable, "m.py")),
    "javascript": Way("m.js", ("node", "m.js")),
    "c": Way("m.c", ("./m",), ("gcc", "-w", "-O0", "m.c", "-o", "m", "-lm")),
    "cpp": Way("m.cpp", ("./m",), ("g++", "-std=c++17", "-w", "-O1", "m.cpp", "-o", "m")),
    "rust": Way(
        "m.rs", ("./m", "-q"), ("rustc", "--test", "--edition", "2021", "-A", "warnings", "m.rs")
    ),
    "java": Way(
        "Main.java",
        ("java", "-ea", "-Xss64m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "Main"),
        ("javac", "-nowarn", "-d", ".", "Main.java"),
    ),
}


def can_test(item: Item) -> bool:
    """Whether the item has tests that can be run here."""
    has = bool(item.more.get("tests") or item.more.get("io_tests"))
    way = WAYS.get(item.language)
    return has and way is not None and all(shutil.which(tool) for tool in way.tools)


@cache
def alone() -> bool:
    """Whether this machine lets a process be without a network."""
    if shutil.which(ALONE[0]) is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0


def passes(item: Item, middle: str) -> bool:
    """Whether the file with `middle` in its hole passes the item's tests."""
    way = _way(item)
    with tempfile.TemporaryDirectory(prefix="completiond-eval-") as folder:
        (Path(folder) / way.file).write_text(program(item, middle), encoding="utf-8")
        if way.build and _ran(way.build, folder, BUILD_S) is None:
            return False
        cases = item.more.get("io_tests") or [{"input": "", "output": None}]
        for case in cases:
            said = _ran(way.run, folder, RUN_S, case["input"])
            if said is None or not _wanted(said, case["output"]):
                return False
    return True


def program(item: Item, middle: str) -> str:
    """The file to run. A hole of whole lines ends with a line end, whether the model said so."""
    if item.middle.endswith("\n") and not middle.endswith("\n"):
        middle += "\n"
    if item.more.get("io_tests"):
        return item.prefix + middle + item.suffix
    suffix = item.more.get("tests_suffix", item.suffix)
    body = f"{item.prefix}{middle}{suffix}\n{item.more['tests']}"
    if item.language == "rust":
        body = "\n".join(line for line in body.split("\n") if line.strip() not in UNKNOWN_CRATES)
    if item.language == "java":
        body = body.replace("import org.javatuples.*;", "")
    lead = item.more.get("tests_prelude", "")
    return (ASSERTS if item.language == "javascript" else "") + (f"{lead}\n" if lead else "") + body


def _way(item: Item) -> Way:
    """Java's file and class have the name of the program's public class."""
    way = WAYS[item.language]
    if item.language != "java":
        return way
    name = item.more.get("main_class") or _main_class(item)
    named = [tuple(part.replace("Main", name) for part in step) for step in (way.run, way.build)]
    return Way(f"{name}.java", *named)


def _main_class(item: Item) -> str:
    words = (item.prefix + item.suffix if item.more.get("io_tests") else "").split()
    names = [after for word, after in zip(words, words[1:], strict=False) if word == "class"]
    public = [c for a, b, c in zip(words, words[1:], words[2:], strict=False) if b == "class" and a]
    return (public or names or ["Main"])[0].rstrip("{")


def _ran(command: Sequence[str], folder: str, seconds: int, said: str = "") -> str | None:
    """What a command printed; None if it failed or took too long. All that it started is ended."""
    rust = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))  # its tool chains
    process = subprocess.Popen(
        [*ALONE, *command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": folder, "RUSTUP_HOME": rust},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: _limit(seconds),
    )
    try:
        out, _ = process.communicate(said.encode(), timeout=PATIENCE * seconds)
        return out.decode("utf-8", "replace") if process.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wanted(said: str, outputs: Sequence[str] | None) -> bool:
    """Whether it is one of the outputs, line by line; None wants nothing."""
    return outputs is None or any(_lines(said) == _lines(output) for output in outputs)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
