"""From a key to its ghost text in real VS Code, with the real model; one JSON line.

A key that a suggestion follows is timed from its event to the frame that shows a new suggestion, by
the page's own clock. The bridge's and the daemon's share of it comes from the extension's log and
from the daemon. Needs scripts/get_code_server, scripts/vsix and a pulled model.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from editor_daemon import EditorDaemon
from vscode_log import Entry, entries, messages
from vscode_server import VsCodeServer, chromium
from vscode_window import Frame, Window, browser

from completiond.client import Client
from completiond.errors import CompletiondError

ASK = "textDocument/inlineCompletion"
TEXT = '''\
"""Figures of a list of numbers."""


def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


'''
TYPED = (
    "def variance(values):\n",
    '"""The mean squared distance from the mean."""\n',
    "center = mean(values)\n",
    "return mean([(value - center) ** 2 for value in values])\n",
)


async def measure(folder: Path, model: str, per_second: float) -> dict[str, Any]:
    daemon = EditorDaemon(folder / "d", None, model)
    settings = {
        "completiond.command": str(daemon.bridge()),
        "completiond.startDaemon": False,
        "completiond.trace.server": "verbose",
        "editor.autoClosingBrackets": "never",
        "editor.autoClosingQuotes": "never",
    }
    server = VsCodeServer(folder / "code", settings, daemon.environment)
    (server.workspace / "figures.py").write_text(TEXT)
    server.install()
    executable = chromium()
    assert executable is not None, "a Chromium is on the PATH"
    await daemon.start()
    server.start()
    try:
        async with browser(executable) as chrome:
            window = await Window.at(chrome, server.url("figures.py"))
            await window.wait_for_status("runs|ready")
            await window.focus("figures.py")
            await window.press("Control+End")
            start = await window.now()
            for line in TYPED:
                await window.type(line, per_second)
            await window.wait_for_ghost()
            keys, frames = await window.keys(start), await window.frames(start)
        log = entries(server.logs("completiond.log"))
        return figures(waits(keys, frames), log, await shares(daemon, log))
    finally:
        server.stop()
        daemon.stop()


def waits(keys: list[tuple[float, str]], frames: list[Frame]) -> tuple[list[float], list[float]]:
    """Ms from each key to the first frame with a suggestion for its text: kept ones, new ones.

    Kept is what the key typed through: the line with its suggestion stays what it was.
    """
    kept, new = [], []
    before = ""
    for (at, _), (until, _) in zip(keys, [*keys[1:], (float("inf"), "")], strict=True):
        shown = [f for f in frames if at <= f.at < until and f.suggestion]
        if shown:
            whole = shown[0].before + shown[0].suggestion
            (kept if whole == before else new).append(shown[0].at - at)
            before = shown[-1].before + shown[-1].suggestion
    return kept, new


async def shares(daemon: EditorDaemon, log: list[Entry]) -> list[float]:
    """Ms that the daemon had with each request whose answer was given, as far as it remembers."""
    found = []
    async with Client(daemon.endpoint) as client:
        for number in sorted(given(log)):
            try:
                facts = (await client.why(number, 5)).facts
            except CompletiondError:
                continue
            if "total_ms" in facts:
                found.append(float(facts["total_ms"]))
    return found


def given(log: list[Entry]) -> set[int]:
    """Numbers of the daemon's answers that the editor has got."""
    replies = messages(log, "Received", "response", ASK)
    bodies = [reply.content for reply in replies if reply.body.startswith("Result: [\n")]
    return {int(item["command"]["arguments"][0]) for body in bodies for item in body}


def figures(
    times: tuple[list[float], list[float]], log: list[Entry], daemon_ms: list[float]
) -> dict[str, Any]:
    kept, new = times
    replies = messages(log, "Received", "response", ASK)
    bridge = [reply.took_ms for reply in replies if "Request failed" not in reply.head]
    return {
        "key_to_new_ghost_ms": spread(new),
        "key_to_kept_ghost_ms": spread(kept),
        "request_to_reply_ms": spread(bridge),
        "of_it_daemon_ms": spread(daemon_ms),
        "requests": len(messages(log, "Sending", "request", ASK)),
        "cancelled": len(replies) - len(bridge),
    }


def spread(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"n": len(values)}
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return {"n": len(values), "median": round(cuts[9], 1), "p95": round(cuts[18], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--keys-per-second", type=float, default=5.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="completiond-bench-") as folder:
        found = asyncio.run(measure(Path(folder), given.model, given.keys_per_second))
    print(json.dumps({"editor": "vscode", "model": given.model} | found))


if __name__ == "__main__":
    main()
