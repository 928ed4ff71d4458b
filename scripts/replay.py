#!/usr/bin/env python
"""Typing traces, replayed at a real daemon and at its peers. The last line is one JSON object.

replay.py                      real time through a real bridge; with --peer also llama.vim's way
                               with llama-server, transformers' generate, or our own daemon that
                               records nothing, one after the other
replay.py --closed             the next key is sent when the answer is there: what a key costs
replay.py --virtual            the same in virtual time: counts, on any machine, without the model;
                               with --context 1024 as if other files were quoted
replay.py --layouts cursor,long       tokens that a key prefills, by layout of the prompt
replay.py --typists 16 --engine scripted  many people at one daemon, with their memory over time
replay.py check --keys 500     reused answers against the same computed from nothing

On an otherwise idle machine; pauses in a trace are cut to --gap seconds. Figures of --speed other
than 1 are load, no measurements. What each figure means: docs/performance.md, "Replay".
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import replay_traces
from replay_traces import DATA, FOLDERS

from completiond.errors import CompletiondError, RequestError

ALL = "*.json"


def main() -> None:
    arguments = parser().parse_args()
    try:
        result = run(arguments)
    except CompletiondError as exc:
        sys.exit(str(exc))
    print(json.dumps({"replay": arguments.what} | result))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("what", nargs="?", default="replay", choices=["replay", "check"])
    _add_traces(made)
    _add_ours(made)
    _add_peers(made)
    _add_kinds(made)
    return made


def _add_traces(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("traces")
    group.add_argument(
        "--traces", default=ALL, metavar="GLOB", help="names of files; default: all but *_full"
    )
    group.add_argument(
        "--folder", type=Path, action="append", help="where they are; default: the shared data"
    )
    group.add_argument("--limit", type=int, default=0, help="so many traces at most")
    group.add_argument("--seconds", type=float, default=0, help="of each trace; 0: all of it")
    group.add_argument("--gap", type=float, default=3, help="longest pause, seconds; 0: as it is")
    group.add_argument("--speed", type=float, default=1, help="times as fast as it was typed")


def _add_ours(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("our side")
    group.add_argument("--model", default="qwen2.5-coder-0.5b")
    group.add_argument("--through", default="bridge", choices=["bridge", "daemon", "both"])
    group.add_argument("--engine", default="model", choices=["model", "scripted"])
    group.add_argument("--layout", default="", help="completion.layout; default: the daemon's")
    group.add_argument("--threads", type=int, default=2, help="of each side's computation")
    group.add_argument("--ask-ms", type=float, default=30, help="from a change to the request")


def _add_peers(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("peers")
    group.add_argument("--peer", action="append", default=[], choices=["llama", "hf", "unrecorded"])
    group.add_argument("--llama-bin", type=Path, default=Path("llama.cpp/build/bin"), metavar="DIR")
    group.add_argument("--gguf", type=Path, default=Path("model.gguf"), metavar="FILE")
    group.add_argument("--hf-keys", type=int, default=20, help="of each trace, with --peer hf")


def _add_kinds(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("kinds of replay")
    group.add_argument("--virtual", action="store_true", help="virtual time, a made-up engine")
    group.add_argument(
        "--context", type=int, default=0, metavar="TOKENS", help="with --virtual: so much of it"
    )
    group.add_argument("--closed", action="store_true", help="closed loop")
    group.add_argument("--layouts", default="", metavar="A,B", help="compare these layouts")
    group.add_argument("--typists", type=int, default=0, help="so many at once")
    group.add_argument("--loop", type=float, default=0, metavar="MINUTES", help="for --typists")
    group.add_argument(
        "--keys", type=int, default=0, help="typed keys: in all (check), of a trace (closed loop)"
    )
    group.add_argument("--noise", type=float, default=0.05, help="logits; check: equal up to this")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The chosen kind of replay. Raises CompletiondError with one sentence."""
    traces = _traces(arguments)
    if arguments.what == "check":
        from replay_check import check  # it brings torch, as the engine does

        return check(traces, arguments)
    if arguments.virtual:
        from replay_virtual import virtual

        return virtual(traces, arguments)
    return _at_sides(traces, arguments)


def _at_sides(traces: list[replay_traces.Trace], arguments: argparse.Namespace) -> dict[str, Any]:
    from replay_closed import closed, layouts
    from replay_crowd import crowd, script_of
    from replay_live import live
    from replay_sides import our_sides, peer_side

    script = script_of(traces) if arguments.engine == "scripted" else None
    if arguments.layouts:
        return layouts(traces, arguments.layouts.split(","), arguments, script)
    with ExitStack() as stack:
        sides = stack.enter_context(our_sides(arguments, script))
        if arguments.typists:
            return crowd(traces, sides[0], arguments)
        sides += [stack.enter_context(peer_side(name, arguments)) for name in arguments.peer]
        if arguments.closed:
            return closed(traces, sides, arguments.keys)
        return live(traces, sides, arguments.speed)


def _traces(arguments: argparse.Namespace) -> list[replay_traces.Trace]:
    folders = arguments.folder or [folder for folder in FOLDERS if folder.is_dir()]
    if not folders:
        raise RequestError(f"There are no traces in {DATA}; name their folder with --folder.")
    paths = replay_traces.find(arguments.traces, folders)
    if arguments.traces == ALL:  # a whole session, whose parts are traces of their own
        paths = [path for path in paths if not path.stem.endswith("_full")]
    read = [replay_traces.read(path) for path in paths[: arguments.limit or None]]
    timed = [replay_traces.timed(trace, arguments.seconds, arguments.gap) for trace in read]
    if "hf" in arguments.peer:  # every side gets the same few keys
        timed = [replay_traces.first_keys(trace, arguments.hf_keys) for trace in timed]
    return [trace for trace in timed if trace.keys]


if __name__ == "__main__":
    main()
