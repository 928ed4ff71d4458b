"""The engine process: `python -m completiond.engine_process FD`. Its composition root.

Knows how a core of each kind is loaded and how stop rules and masks are made from a job's data.
The front holds the other end of FD; when that closes, this process ends, also in a pass.
"""

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from completiond import config
from completiond.drafters.reading import Reading
from completiond.drafters.suffix import Suffix
from completiond.engine import packing
from completiond.engine.job import Job, Rules
from completiond.engine.scripted import ScriptedCore, script_of
from completiond.engine.worker import Loaded, Worker
from completiond.errors import DeviceError
from completiond.footprint import keep_freed_blocks, map_blocks_apart
from completiond.model import processor
from completiond.model.checkpoint import ModelFiles
from completiond.prompt.healing import HealingMask, VocabularyIndex
from completiond.prompt.ready import ReadyStop
from completiond.prompt.spelling import Spelling, spell, spelling_of
from completiond.prompt.stopping import TextStop
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer, Tokenizer

SWITCH_S = 5e-4
"""How long a computing thread may keep the reader of cancels waiting for the interpreter."""
READ_BYTES = 1 << 18


def load(start: Mapping[str, Any]) -> Loaded:
    """The core and the rules that a START message asks for. Raises the error to tell a person."""
    try:
        if start["kind"] == "scripted":
            return load_scripted(start["script"])
        target, draft = ModelFiles.of(start["model"]), start["draft"]
        small = ModelFiles.of(draft) if draft else None
        return _load_model(config_of(start["config"]), target, small)
    except MemoryError as exc:
        raise _no_memory() from exc
    except RuntimeError as exc:
        # torch has no class of its own for a CPU allocation that fails.
        if "memory" not in str(exc):
            raise
        raise _no_memory() from exc


def load_scripted(script: Mapping[str, Any]) -> Loaded:
    """A core without a model; `answers` and `document` of the script are text here."""
    tokenizer = ByteTokenizer()
    ids: dict[str, Any] = {}
    if "answers" in script:
        ids["answers"] = [tokenizer.encode(text) for text in script["answers"]]
    if "document" in script:
        ids["document"] = tokenizer.encode(script["document"])
    return Loaded(ScriptedCore(script_of(dict(script) | ids)), rules_for(tokenizer))


def config_of(values: Mapping[str, Mapping[str, Any]]) -> config.Config:
    """The front's configuration, which was checked there; no file and no variable adds to it."""
    flags = {f"{name}.{key}": v for name, section in values.items() for key, v in section.items()}
    return config.load(flags, file=Path(os.devnull), environ={})


class Vocabulary:
    """One vocabulary as the engine process needs it: rules from data, and a words.Speller.

    `encode` waits for the tokenizer, which is read behind all else that a start needs.
    """

    def __init__(self, spelling: Spelling, tokenizer: Callable[[], AnyTokenizer]) -> None:
        self.control = spelling.control
        self.spell = spelling.token_bytes
        self._index = VocabularyIndex(spelling)
        self.continuing = self._index.continuing
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return self._tokenizer().encode(text)

    def rules(self, job: Job) -> Rules:
        """A job's stop rule and mask, from its data."""
        healed = job.prompt.healed.encode("utf-8", "replace")
        mask = HealingMask(self._index, self.spell, healed) if healed else None
        kind = ReadyStop if "texts" in job.stop else TextStop
        return Rules(kind(job.stop, self.spell), mask)


def rules_for(tokenizer: AnyTokenizer) -> Callable[[Job], Rules]:
    """What makes a job's stop rule and mask from its data, for one vocabulary."""
    return Vocabulary(spell(tokenizer), lambda: tokenizer).rules


def _load_model(settings: config.Config, target: ModelFiles, small: ModelFiles | None) -> Loaded:
    processor.limit(settings.engine.isa)
    place = (target.directory, target.name)
    tokenizer = cache(lambda: Tokenizer.load(target.directory, name=target.name))
    # The vocabulary is Python's work, the weights are torch's: they can be read side by side.
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(lambda: Vocabulary(spelling_of(*place), tokenizer))
        # Torch comes with this import: only a process that computes pays for it, and only now.
        from completiond.engine.load import load_core

        suffixes: list[Suffix] = []

        def suffix() -> Suffix:
            suffixes.append(Suffix(coming.result(), coming.result().control))
            return suffixes[0]

        core, vocabulary = load_core(settings, target, small, suffix), coming.result()
        reading = Reading(vocabulary.encode, suffixes[0]) if suffixes else None
        if reading is not None:
            threading.Thread(target=tokenizer, daemon=True).start()
        return Loaded(core, vocabulary.rules, reading)


def _no_memory() -> DeviceError:
    return DeviceError(
        "There is not enough memory for the model; close other programs, choose a smaller model, "
        "or set engine.kv_mb lower."
    )


def serve(sock: socket.socket) -> None:
    """Speak with the front until it says stop or goes away."""
    unpacker = packing.unpacker()
    start = _first_message(sock, unpacker)
    worker = Worker(lambda message: sock.sendall(packing.pack(message)))
    threading.Thread(target=_read, args=(sock, unpacker, worker), daemon=True).start()
    try:
        worker.run(lambda: _loaded(start))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the front is gone


def _loaded(start: Mapping[str, Any]) -> Loaded:
    loaded = load(start)
    keep_freed_blocks()
    gc.freeze()  # a million objects of libraries, which no collection between passes has to visit
    gc.enable()
    return loaded


def _first_message(sock: socket.socket, unpacker: Any) -> Mapping[str, Any]:
    while True:
        for message in unpacker:
            assert message[0] == packing.START, f"{message[0]!r} came before the start"
            start: Mapping[str, Any] = message[1]
            return start
        unpacker.feed(_receive(sock))


def _read(sock: socket.socket, unpacker: Any, worker: Worker) -> None:
    """The reader thread: it must stay tiny, for it shares the interpreter with the computation."""
    while True:
        for message in unpacker:
            worker.deliver(message)
        unpacker.feed(_receive(sock))


def _receive(sock: socket.socket) -> bytes:
    """Some bytes; without a front there is nobody to compute for, so the process ends here."""
    try:
        data = sock.recv(READ_BYTES)
    except ConnectionResetError:
        data = b""
    if not data:
        os._exit(0)
    return data


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="engine: %(levelname)s %(message)s")
    # Ctrl-C and a service manager's stop reach the whole group, but a drain needs its engine: the
    # front decides, and its end of the socket ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_S)
    gc.disable()  # what is imported and read stays: looking through it takes a fifth of a second
    map_blocks_apart()
    with socket.socket(fileno=int(sys.argv[1])) as sock:
        serve(sock)


if __name__ == "__main__":
    main()
