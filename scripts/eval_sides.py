"""Who fills the holes: our model as the daemon runs it, and llama-server's /infill.

Each side makes a row of an item in one setting: plain data from which the answer can be made again,
also by rules of later days, without the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from eval_context import Chunk
from filler import Filler, Manner
from infill_items import LINE_KINDS, Item
from replay_llama_server import FOREVER, Server
from replay_llama_text import drawn, local
from replay_traces import Moment

LINE_TOKENS, BLOCK_TOKENS = 64, 192
"""An answer's tokens; 64 is what the product decodes where nobody says otherwise."""

LAYOUTS = {
    f"{layout}{'+healing' if healing else ''}": Manner(layout, healing)
    for layout in ("cursor", "line", "long", "suffix_first")
    for healing in (False, True)
}
"""Every layout with and without healing, by name."""


class Setting(NamedTuple):
    """What is asked of whom: a side, a layout of ours, a source of chunks; `free` of stop rules;
    `invoked` as by hand."""

    side: str
    layout: str
    context: str = "none"
    free: bool = False
    invoked: bool = False

    @property
    def name(self) -> str:
        how = ("invoked" if self.invoked else "", "free" if self.free else "")
        return "/".join(filter(None, (*self[:3], *how)))


class Side(Protocol):
    def fill(self, item: Item, setting: Setting, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """What a row keeps of the answer."""


def most_tokens(item: Item) -> int:
    return LINE_TOKENS if item.kind in LINE_KINDS else BLOCK_TOKENS


class Ours:
    """Our model in this process. In a layout other than `whole`, which is the product's, it says no
    more of a line than that line: only scores are compared there."""

    def __init__(self, model: str, flags: Mapping[str, Any], whole: str) -> None:
        self._filler = Filler(model, flags)
        self._whole = whole
        self._last = ""

    def fill(self, item: Item, setting: Setting, chunks: Sequence[Chunk]) -> dict[str, Any]:
        if item.key != self._last:
            self._filler.forget()  # of one item, what two layouts share is computed once
            self._last = item.key
        manner = LAYOUTS[setting.layout]._replace(invoked=setting.invoked)
        built = self._filler.built(item, most_tokens(item), manner, chunks)
        brief = item.kind in LINE_KINDS and setting.layout != self._whole
        stop = built.stop | ({"single": True} if brief else {})
        ran = self._filler.run(built, stop, free=setting.free)
        return {
            "text": ran.text,
            "reason": ran.reason,
            "stop": stop | {"stop_ids": []},
            "decoded": len(ran.ids),
        }


class Llama:
    """llama-server, asked and drawn as llama.vim does it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def fill(self, item: Item, setting: Setting, chunks: Sequence[Chunk]) -> dict[str, Any]:
        text = item.prefix + item.suffix
        moment = Moment(item.key, item.path, item.language, text, len(item.prefix))
        here = local(moment)
        limits: Any = {"most": most_tokens(item), "prompt_ms": FOREVER}
        reply = self._server.infill(here, FOREVER, extra=chunks, **limits)
        return {"text": drawn(reply.text, here, moment), "decoded": reply.decoded}
