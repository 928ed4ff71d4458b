"""From a key to ghost text in a real Neovim: median and p95, with the daemon's share, as JSON.

    python scripts/bench_nvim.py [--program nvim] [--model NAME] [--keys N] [--builtin]

Types a text line by line; each key's time goes from its arrival in Neovim to the first frame whose
ghost text belongs to it. Without --model the engine is scripted: what is left is everybody else.
Keys that spell what is drawn are `typed`; the others had to be asked for.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vscode_server import editors

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "editors"))

from nvim_process import Nvim, NvimError  # noqa: E402
from world import World, began  # noqa: E402

TEXT = (
    "def area(width, height):\n    return width * height\n\n\n"
    "def volume(width, height, depth):\n    return area(width, height) * depth\n\n\n"
    "def surface(width, height, depth):\n"
    "    return 2 * (width * height + width * depth + height * depth)\n"
)
ANSWER = "value(1)"
SCRIPTED = ("q" * 5 + ANSWER[:-1]) * 8
"""Keys that the answer does not begin with, each a new question, and keys that it does."""
WAIT_S = 3.0
PAUSE_S = 0.1
LAST = """local server = require('completiond.client').get()
local told = server:request_sync('completiond/status', {}, 2000)
return told and told.result and told.result.last or {}"""
FIRST = """for _, frame in ipairs(_G.frames) do
  if frame.ghost ~= '' then return (frame.at - _G.key) / 1e6 end
end
return -1"""
KEY = "vim.on_key(function() _G.key = vim.uv.hrtime() end) _G.key = 0"


def first_frame(nvim: Nvim) -> float:
    """Milliseconds from the last key to the first frame with ghost text; -1: there is none."""
    give_up = time.monotonic() + WAIT_S
    while (ms := float(nvim.lua(FIRST))) < 0 and time.monotonic() < give_up:
        time.sleep(0.005)
    return ms


def measured(nvim: Nvim, text: str) -> Iterator[tuple[str, float, float]]:
    """For each key with an answer: where it came from, its time, the daemon's part of it."""
    nvim.lua(KEY)
    for letter in text:
        nvim.lua("_G.frames = {}")
        nvim.type(letter)
        ms = first_frame(nvim)
        time.sleep(PAUSE_S)
        last: dict[str, Any] = nvim.lua(LAST)
        if ms >= 0 and not last.get("reason"):
            yield last.get("source", "typed"), ms, last.get("latencyMs", 0.0)


def summary(rows: list[tuple[float, float]]) -> dict[str, float]:
    times, shares = sorted(ms for ms, _ in rows), [share for _, share in rows]
    return {
        "keys": len(rows),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[min(len(times) - 1, int(0.95 * len(times)))], 1),
        "daemon_median_ms": round(statistics.median(shares), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--program", type=Path, default=editors() / "nvim-0.11" / "nvim")
    parser.add_argument("--model", default="")
    parser.add_argument("--keys", type=int, default=96)
    parser.add_argument("--builtin", action="store_true", help="Neovim's own drawing (0.12)")
    given = parser.parse_args()
    text = TEXT if given.model else SCRIPTED
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="completiond-") as home:
        world = World(Path(home))
        try:
            if given.model:
                world.launch("--model", given.model)
            else:
                world.serve(answers=[ANSWER])
            with world.nvim(
                given.program, builtin=given.builtin, init="vim.o.autoindent = false"
            ) as nvim:
                began(nvim, world.path / "a.txt", "\n", "i")
                for source, ms, share in measured(nvim, text[: given.keys]):
                    rows[source].append((ms, share))
        except NvimError as exc:
            sys.exit(f"Neovim: {exc}")
        finally:
            world.close()
    print(json.dumps({source: summary(found) for source, found in sorted(rows.items())}))


if __name__ == "__main__":
    main()
