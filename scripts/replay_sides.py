"""Who is asked: our bridge, our daemon, llama-server, transformers. Each server is started once.

While one side computes the others are idle: traces go to one side after the other.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from replay_bridge import BridgeSource
from replay_daemon import Running, daemon
from replay_editor import Seat, VsCode
from replay_llama import LlamaVim
from replay_llama_server import Server, server
from replay_ours import DaemonSource

Sit = Callable[[], AbstractAsyncContextManager[Seat]]


@dataclass(frozen=True, slots=True)
class Side:
    """Somebody to ask. `sit` gives a person an editor of this side; `daemon` is there for ours."""

    name: str
    sit: Sit
    daemon: Running | None = None


class Ask(NamedTuple):
    """How our side is asked."""

    through: str
    ask_s: float


def our_side(running: Running, ask: Ask) -> Side:
    source: Any = BridgeSource if ask.through == "bridge" else DaemonSource

    @asynccontextmanager
    async def sit() -> AsyncIterator[Seat]:
        async with source(running.endpoint) as found:
            yield VsCode(found, ask.ask_s)

    return Side(ask.through, sit, running)


def llama_side(running: Server) -> Side:
    @asynccontextmanager
    async def sit() -> AsyncIterator[Seat]:
        yield LlamaVim(running)

    return Side("llama", sit)


@contextmanager
def peer_side(name: str, arguments: Any) -> Iterator[Side]:
    if name == "llama":
        with server(arguments.llama_bin, arguments.gguf, arguments.threads) as running:
            yield llama_side(running)
        return
    if name == "unrecorded":
        with daemon(arguments.model, _settings(arguments) | {"record.enabled": "false"}) as ours:
            yield replace(our_side(ours, Ask("bridge", arguments.ask_ms / 1000)), name=name)
        return
    from replay_hf import Generate, HfSource  # it brings torch: only who asks for it waits for it

    model = Generate(arguments.model)

    @asynccontextmanager
    async def sit() -> AsyncIterator[Seat]:
        yield VsCode(HfSource(model), arguments.ask_ms / 1000)

    yield Side("hf", sit)


@contextmanager
def our_sides(arguments: Any, script: dict[str, Any] | None = None) -> Iterator[list[Side]]:
    """Our daemon, asked in each way that is wanted; two ways share one daemon, in turns."""
    ways = ["bridge", "daemon"] if arguments.through == "both" else [arguments.through]
    with daemon(arguments.model, _settings(arguments), script) as running:
        yield [our_side(running, Ask(way, arguments.ask_ms / 1000)) for way in ways]


def _settings(arguments: Any) -> dict[str, str | int]:
    settings: dict[str, str | int] = {"engine.threads": arguments.threads}
    return settings | ({"completion.layout": arguments.layout} if arguments.layout else {})
