"""Text to token ids and back, exactly: decode(encode(text)) is the text.

Knows one vocabulary and which of its tokens are control tokens; those never come out of a user's
text. No BOS and no blank is put in front, nothing is normalised: that is the builder's business.
"""

import codecs
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from completiond.errors import ModelCorrupt, ModelMissing
from completiond.prompt.templates import CONTROL_TOKENS, SENTINELS

CACHE_BYTES = 8 << 20
"""Bound of the encodings that are kept; one of 1,500 tokens takes about 60 KB."""

_ID_BYTES = 36
_BOS_NAMES = ("<s>", "<bos>", "<｜begin▁of▁sentence｜>", "<|begin_of_text|>")
_PADDING = re.compile(r"\[PAD\d+\]")
_BRACKETED = re.compile(r"▁?[<\[].+[>\]]", re.DOTALL)
_MARKUP = re.compile(r"</?[a-z][a-z0-9]*>")
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


class EncodingCache:
    """Encodings of texts that come again at each key, the least recently used dropped first."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, text: str) -> tuple[int, ...] | None:
        with self._lock:
            ids = self._held.get(text)
            if ids is not None:
                self._held.move_to_end(text)
            return ids

    def put(self, text: str, ids: tuple[int, ...]) -> None:
        with self._lock:
            if text in self._held:
                return
            self._held[text] = ids
            self.bytes += _cost(text, ids)
            while self.bytes > self._limit:
                self.bytes -= _cost(*self._held.popitem(last=False))


def _cost(text: str, ids: tuple[int, ...]) -> int:
    return 4 * len(text) + _ID_BYTES * len(ids) + 200


class _Spelled(dict[int, bytes]):
    """What each token adds to a text, looked for once."""

    def __init__(self, spell: Callable[[int], bytes]) -> None:
        super().__init__()
        self._spell = spell

    def __missing__(self, token: int) -> bytes:
        found = self[token] = self._spell(token)
        return found


class Tokenizer:
    """A tokenizer.json as `tokenizers` reads it, with every control token made unspeakable.

    It takes `spec`, the parsed file, over and changes it.
    """

    def __init__(self, spec: dict[str, Any], *, name: str = "") -> None:
        self.name = name
        try:
            self.prepends_space = _strip_prefix_space(spec)
            _drop_unicode_forms(spec)
            _mark_control(spec)
            self._inner = tokenizers.Tokenizer.from_str(json.dumps(spec))
        except Exception as exc:  # the library raises bare Exception
            raise ModelCorrupt(f"The tokenizer of {name!r} cannot be used: {exc}.") from exc
        self._inner.encode_special_tokens = True
        self._byte_level = _uses(spec, "ByteLevel")
        self._added: dict[int, str] = {
            t["id"]: t["content"] for t in spec.get("added_tokens") or ()
        }
        self._rows = _highest(spec) + 1
        self.control = frozenset(t["id"] for t in spec.get("added_tokens") or () if t["special"])
        self._bar = () if self._byte_level else self._byte_ids("▁")
        self._bytes = _Spelled(self._spell)
        self._cache = EncodingCache()

    @classmethod
    def load(cls, path: Path, *, name: str = "") -> "Tokenizer":
        """The tokenizer in the file `path`, or in tokenizer.json of the directory `path`."""
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            spec = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError as exc:
            raise ModelMissing(f"{file} does not exist; fetch the model again.") from exc
        except (OSError, ValueError) as exc:
            raise ModelCorrupt(f"{file} cannot be read ({exc}); fetch the model again.") from exc
        return cls(spec, name=name or file.parent.name)

    @cached_property
    def vocab_size(self) -> int:
        """The highest id that is not padding, plus one."""
        top = self._rows
        while top and _PADDING.fullmatch(self._inner.id_to_token(top - 1) or "[PAD0]"):
            top -= 1
        return top

    @cached_property
    def bos_id(self) -> int | None:
        """The token that a text starts with in models that were trained on one."""
        found = (self.token_id(name) for name in _BOS_NAMES)
        return next((i for i in found if i is not None), None)

    def token_id(self, token: str) -> int | None:
        """The id of exactly this control token; None too if the name is that of ordinary text."""
        found = self._inner.token_to_id(token)
        return found if found in self.control else None

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; a control token's name is text, a lone surrogate is U+FFFD."""
        ids = self._cache.get(text)
        if ids is None:
            ids = tuple(self._encode(text))
            self._cache.put(text, ids)
        return list(ids)

    def _encode(self, text: str) -> list[int]:
        if self._bar and "▁" in text:
            first, *others = map(self._encode, text.split("▁"))
            return first + [token for part in others for token in (*self._bar, *part)]
        try:
            ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError):
            ids = self._inner.encode(without_surrogates(text), add_special_tokens=False).ids
        return ids if self.control.isdisjoint(ids) else self._spell_control(ids)

    def _spell_control(self, ids: Sequence[int]) -> list[int]:
        """Merges can lead to a control token (`<` + `s>`): spell it in two parts."""
        out: list[int] = []
        for token in ids:
            name = self._inner.id_to_token(token) or ""
            if token in self.control and len(name) > 1:
                name = name.replace("▁", " ") if not self._byte_level else name
                out += self._encode(name[:1]) + self._encode(name[1:])
            else:
                out.append(token)
        return out

    def _byte_ids(self, text: str) -> tuple[int, ...]:
        """`text` in tokens of one byte each: a `▁` in any other piece is a blank."""
        found = [self._inner.token_to_id(f"<0x{byte:02X}>") for byte in text.encode()]
        return tuple(token for token in found if token is not None)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; control tokens have none, broken UTF-8 becomes U+FFFD."""
        return self.spelled(ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to the text; empty for control tokens and ids that do not exist."""
        return self._bytes[token]

    def spelled(self, ids: Iterable[int]) -> bytes:
        """What the tokens add together."""
        return b"".join(map(self._bytes.__getitem__, ids))

    def _spell(self, token: int) -> bytes:
        if token < 0 or token in self.control:
            return b""
        if token in self._added:
            return self._added[token].encode("utf-8", "replace")
        piece = self._inner.id_to_token(token)
        if piece is None:
            return b""
        return _byte_level(piece) if self._byte_level else _sentence_piece(piece)


class ByteTokenizer:
    """Ids 0-255 are the bytes of UTF-8, then come control tokens: for tests, without a file."""

    SPECIALS = (
        "<|endoftext|>",
        "<fim_prefix>",
        "<fim_middle>",
        "<fim_suffix>",
        "<fim_pad>",
        "<repo_name>",
        "<file_sep>",
    )

    prepends_space = False
    bos_id: int | None = None

    def __init__(self, specials: Sequence[str] = SPECIALS, *, name: str = "bytes") -> None:
        self.name = name
        self._ids = {token: 256 + i for i, token in enumerate(specials)}
        self.control = frozenset(self._ids.values())
        self.vocab_size = 256 + len(specials)

    def token_id(self, token: str) -> int | None:
        return self._ids.get(token)

    def encode(self, text: str) -> list[int]:
        return list(without_surrogates(text).encode("utf-8"))

    def decode(self, ids: Iterable[int]) -> str:
        return self.spelled(ids).decode("utf-8", "replace")

    def spelled(self, ids: Iterable[int]) -> bytes:
        return b"".join(map(self.token_bytes, ids))

    def token_bytes(self, token: int) -> bytes:
        return bytes((token,)) if 0 <= token < 256 else b""


AnyTokenizer = Tokenizer | ByteTokenizer


class StreamDecoder:
    """Text of ids as they come; half a character waits for its other half."""

    def __init__(self, tokenizer: AnyTokenizer) -> None:
        self._spelled = tokenizer.spelled
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Iterable[int]) -> str:
        """The characters that `ids` complete."""
        return self._utf8.decode(self._spelled(ids))

    def flush(self) -> str:
        """What is left at the end of a run: nothing, or U+FFFD for a character cut in half."""
        return self._utf8.decode(b"", final=True)


def without_surrogates(text: str) -> str:
    """`text` as UTF-8 can carry it: each half of a broken pair becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _highest(spec: dict[str, Any]) -> int:
    vocab = spec["model"]["vocab"]
    inside: int = max(vocab.values(), default=-1) if isinstance(vocab, dict) else len(vocab) - 1
    added: list[int] = [t["id"] for t in spec.get("added_tokens") or ()]
    return max([inside, *added])


def _parts(node: Any, key: str) -> list[dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder; a sequence is taken apart."""
    if not node:
        return []
    return list(node[key]) if node.get("type") == "Sequence" else [node]


def _uses(spec: dict[str, Any], kind: str) -> bool:
    steps = _parts(spec.get("decoder"), "decoders")
    steps += _parts(spec.get("pre_tokenizer"), "pretokenizers")
    return any(step["type"] == kind for step in steps)


def _strip_prefix_space(spec: dict[str, Any]) -> bool:
    """Take away the blank that SentencePiece models put before a text; whether there was one."""
    steps = _parts(spec.get("normalizer"), "normalizers")
    kept = [step for step in steps if step["type"] != "Prepend"]
    found = len(kept) < len(steps)
    spec["normalizer"] = {"type": "Sequence", "normalizers": kept} if kept else None
    for step in _parts(spec.get("pre_tokenizer"), "pretokenizers"):
        if step["type"] == "Metaspace":
            found = found or step.get("prepend_scheme", "always") != "never"
            step.update(prepend_scheme="never")
            step.pop("add_prefix_space", None)
        elif "add_prefix_space" in step:
            found = found or step["add_prefix_space"]
            step["add_prefix_space"] = False
    return bool(found)


def _drop_unicode_forms(spec: dict[str, Any]) -> None:
    """Without NFC and its like: an identifier must be answered as its file spells it."""
    steps = _parts(spec.get("normalizer"), "normalizers")
    kept = [s for s in steps if s["type"] not in {"NFC", "NFD", "NFKC", "NFKD"}]
    spec["normalizer"] = {"type": "Sequence", "normalizers": kept} if kept else None


def _mark_control(spec: dict[str, Any]) -> None:
    """Sentinels are special, even where the file calls them plain added tokens.

    Whitespace runs, odd characters and HTML tags that a vocabulary adds stay text. A sentinel
    that is only in the model's own vocabulary is added, so that no merge can lead to it.
    """
    added, vocab = spec.get("added_tokens") or [], spec["model"]["vocab"]
    names = {token["content"] for token in added}
    hidden = sorted(SENTINELS - names) if isinstance(vocab, dict) else ()
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added += [
        {"id": vocab[n], "content": n, "special": True, **flags} for n in hidden if n in vocab
    ]
    spec["added_tokens"] = sorted(added, key=lambda token: int(token["id"]))
    for token in added:
        name = token["content"]
        looks = _BRACKETED.fullmatch(name) and not _MARKUP.fullmatch(name)
        token["special"] = bool(token["special"] or looks or name in CONTROL_TOKENS)


def _byte_alphabet() -> dict[str, int]:
    """The stand-ins of byte-level BPE: visible Latin-1 is itself, the rest from U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in visible]
    return {chr(b): b for b in visible} | {chr(256 + i): b for i, b in enumerate(hidden)}


_ALPHABET = _byte_alphabet()


def _byte_level(piece: str) -> bytes:
    try:
        return bytes([_ALPHABET[char] for char in piece])
    except KeyError:
        return piece.encode("utf-8", "replace")


def _sentence_piece(piece: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace("▁", " ").encode("utf-8", "replace")
