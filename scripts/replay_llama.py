"""The peer: llama-server's /infill, asked as llama.vim asks it (its tree of 2026-01-31, a1c8e6e).

256 lines before and 64 after the cursor, split at the start of the cursor's line; a blank line is
left out of the prompt. At most 128 tokens, 250 ms of decoding, then a second request (1,000 ms)
for what would follow the shown answer. One request on its way at a time: it is never cancelled,
what comes meanwhile is tried again 100 ms later. No request with more than 8 characters behind
the cursor. 250 earlier answers are remembered under a sha256 of prefix, line and suffix (and the
same without the first one to three lines), and looked up with up to 128 characters taken back.

Two things differ. The samplers are llama.vim's, with `temperature` 0 behind them, so that a replay
is the same twice; and the ring of chunks of other places stays empty: our side sends none either.
"""

import asyncio
import http.client
import json
import re
import socket
import subprocess
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from replay_account import Account
from replay_screen import Screen, Suggestion
from replay_traces import Desk, Moment, Step

from completiond.errors import EngineDied, ModelMissing

LINES_BEFORE, LINES_AFTER = 256, 64
MOST_TOKENS = 128
PROMPT_MS, FIRST_MS, NEXT_MS = 500, 250, 1000
LONGEST_REST = 8
RETRY_S = 0.1
REMEMBERED = 250
TAKEN_BACK = 128
MARK = "\u00ce"
"""What llama.vim puts between the two sides in its keys."""
READY_S = 120.0
FLAGS = ("-c", "8192", "-b", "1024", "-ub", "1024", "-np", "1", "--cache-reuse", "256")
"""What llama.vim's README and llama.cpp's own FIM presets start it with, on a machine like this."""


class Local(NamedTuple):
    """What llama.vim makes of a cursor: three texts, and the line on both sides of it."""

    prefix: str
    middle: str
    suffix: str
    indent: int
    head: str
    rest: str


def local(moment: Moment, shown: str | None = None) -> Local:
    """The prompt at the cursor; with `shown`, the one behind that text if it is taken."""
    lines = moment.text.split("\n")
    at = moment.text.count("\n", 0, moment.cursor)
    start = moment.text.rfind("\n", 0, moment.cursor) + 1
    column = moment.cursor - start
    head, rest = lines[at][:column], lines[at][column:]
    before, after = lines[max(0, at - LINES_BEFORE) : at], lines[at + 1 : at + 1 + LINES_AFTER]
    indent = len(lines[at]) - len(lines[at].lstrip(" \t"))
    middle, behind = head, rest
    if shown is not None:
        taken = (lines[at] + shown).split("\n")
        before, middle, behind = (before + taken[:-1])[-LINES_BEFORE:], taken[-1], ""
    elif not lines[at].strip():
        middle = behind = ""
        indent = 0
    suffix = f"{behind}\n" + "\n".join(after) + "\n"
    return Local("\n".join(before) + "\n", middle, suffix, indent, head, rest)


def keys_of(here: Local) -> list[str]:
    """The names under which an answer is remembered."""
    prefix, names = here.prefix, [_name(here.prefix + here.middle, here.suffix)]
    for _ in range(3):
        prefix = re.sub(r"\A[^\n]*\n", "", prefix)
        if not prefix:
            break
        names.append(_name(prefix + here.middle, here.suffix))
    return names


def _name(before: str, after: str) -> str:
    return sha256((before + MARK + after).encode("utf-8", "surrogatepass")).hexdigest()


class Memory:
    """Earlier answers; the least lately used is forgotten first."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._answers: OrderedDict[str, str] = OrderedDict()

    def put(self, names: list[str], text: str) -> None:
        for name in names:
            self._answers[name] = text
            self._answers.move_to_end(name)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)

    def get(self, name: str) -> str | None:
        if name in self._answers:
            self._answers.move_to_end(name)
        return self._answers.get(name)

    def find(self, here: Local) -> str | None:
        """What an answer for this place, or one some characters back, still says; the longest."""
        before, best = here.prefix + here.middle, ""
        exact = self.get(_name(before, here.suffix))
        if exact is not None:
            return exact
        for back in range(1, min(TAKEN_BACK, len(before)) + 1):
            found = self.get(_name(before[:-back], here.suffix))
            if found and found[:back] == before[-back:] and len(found) - back > len(best):
                best = found[back:]
        return best or None


def drawn(text: str, here: Local, moment: Moment) -> str:
    """What llama.vim draws of an answer: not what repeats the text behind, not blanks alone."""
    lines = text.split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return ""
    if not (here.head + here.rest).strip():
        lead = len(lines[0]) - len(lines[0].lstrip(" \t"))
        lines[0] = lines[0][min(lead, len(here.head + here.rest)) :]
    after = moment.text[moment.cursor :].split("\n")[1:]
    if _repeats(lines, here, after):
        return ""
    shown = "\n".join(lines)
    return shown if (shown + here.rest).strip() else ""


def _repeats(lines: list[str], here: Local, after: list[str]) -> bool:
    if len(lines) > 1 and not lines[0] and lines[1:] == after[: len(lines) - 1]:
        return True
    if lines == [here.rest]:
        return True
    at = next((i for i, line in enumerate(after) if line.strip()), len(after) - 1)
    if not after or here.head + lines[0] != after[at]:
        return False
    following = after[at + 1 : at + len(lines)]
    if len(lines) == 2:
        return bool(following) and following[0].startswith(lines[1])
    return lines[1:] == following


@dataclass(slots=True)
class LlamaVim:
    """An editor with llama.vim. It hides its hint at each key and finds it again in its memory."""

    server: "Server"
    screen: Screen = field(default_factory=lambda: Screen(keeps=False))
    account: Account = field(default_factory=Account)
    asked: int = 0
    prefilled: list[int] = field(default_factory=list)
    _memory: Memory = field(default_factory=Memory)
    _moment: Moment | None = None
    _job: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None

    async def open(self, name: str, here: Desk) -> None:
        self.screen = Screen(keeps=False)
        self._memory, self._moment = Memory(), None

    def before(self) -> None:
        pass  # it lets a request run

    def after(self, old: Moment | None, step: Step, new: Moment) -> None:
        self._moment = new
        if step.opened:
            return
        self._hint()
        self._fim(None)

    def _hint(self) -> None:
        """Draw what the memory has for the cursor, and ask for what would follow it."""
        moment = self._moment
        assert moment is not None, "there is a cursor before there is a hint"
        here = local(moment)
        found = self._memory.find(here)
        text = drawn(found, here, moment) if found is not None else ""
        if text:
            self.screen.show(Suggestion(text, 0, "cache"), time.perf_counter())
            self._fim(text)

    def _fim(self, shown: str | None) -> None:
        """Ask, unless a request is on its way: then again in a moment."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._job is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(RETRY_S, self._fim, shown)
            return
        moment = self._moment
        if moment is None:
            return
        here = local(moment, shown)
        if len(here.rest) > LONGEST_REST and shown is None:
            return
        names = keys_of(here)
        if not any(self._memory.get(name) is not None for name in names):
            self._job = asyncio.create_task(self._ask(here, names, shown is not None))

    async def _ask(self, here: Local, names: list[str], speculative: bool) -> None:
        self.asked += 1
        try:
            reply = await asyncio.to_thread(
                self.server.infill, here, NEXT_MS if speculative else FIRST_MS
            )
        finally:
            self._job = None
        self.prefilled.append(reply.prefilled)
        self._memory.put(names, reply.text)
        if self._moment is not None and self.screen.shown is None:
            self._found(reply)

    def _found(self, reply: "Reply") -> None:
        """Draw the answer if it is for where the cursor is now, or what typing has left of it."""
        moment = self._moment
        assert moment is not None, "there was a cursor when it was asked"
        here = local(moment)
        found = self._memory.find(here)
        text = drawn(found, here, moment) if found is not None else ""
        if text:
            self.screen.show(Suggestion(text, 0, "pass", reply.prefilled), time.perf_counter())
            self._fim(text)

    def tell(self, old: Moment | None, step: Step, new: Moment) -> None:
        pass  # a request is self-contained

    async def answer(self, new: Moment) -> Suggestion | None:
        here = local(new)
        reply = await asyncio.to_thread(self.server.infill, here, FIRST_MS)
        text = drawn(reply.text, here, new)
        return Suggestion(text, 0, "pass", reply.prefilled)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._moment = None
        if self._job is not None:
            await asyncio.wait([self._job])


class Reply(NamedTuple):
    text: str
    prefilled: int


class Server(NamedTuple):
    """A llama-server process."""

    pid: int
    port: int

    def infill(self, here: Local, predict_ms: int) -> Reply:
        request = {
            "id_slot": 0,
            "input_prefix": here.prefix,
            "input_suffix": here.suffix,
            "input_extra": [],
            "prompt": here.middle,
            "n_predict": MOST_TOKENS,
            "stop": [],
            "n_indent": here.indent,
            "top_k": 40,
            "top_p": 0.90,
            "samplers": ["top_k", "top_p", "infill", "temperature"],
            "temperature": 0.0,
            "stream": False,
            "cache_prompt": True,
            "t_max_prompt_ms": PROMPT_MS,
            "t_max_predict_ms": predict_ms,
        }
        reply = self._post("/infill", request)
        return Reply(
            str(reply.get("content", "")), int(reply.get("timings", {}).get("prompt_n", 0))
        )

    def ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_S)
        try:
            data = json.dumps(body)
            connection.request("POST", path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise EngineDied(
                    f"llama-server refused a request ({answer.status}: {text[:200]!r})."
                )
            reply: dict[str, Any] = json.loads(text)
            return reply
        finally:
            connection.close()


@contextmanager
def server(binaries: Path, model: Path, threads: int = 2) -> Iterator[Server]:
    """llama-server on a free port of this machine, until it is ready. Raises what is missing."""
    program = binaries / "llama-server"
    for path in (program, model):
        if not path.is_file():
            raise ModelMissing(f"There is no file {path}; see --llama-bin and --gguf.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", str(threads), "--no-webui", *FLAGS]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    here = Server(process.pid, port)
    try:
        deadline = time.monotonic() + READY_S
        while not here.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise EngineDied("llama-server did not become ready; try its command by hand.")
            time.sleep(0.2)
        yield here
    finally:
        process.terminate()
        process.wait(30)
