"""A tokenizer built from a GGUF header: byte-level BPE and SentencePiece.

Knows which splitting each `tokenizer.ggml.pre` stands for, which tokens are padding and which must
be special. Text is never normalized: what is encoded comes back the same.
"""

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.gguf_file import Header
from completiond.model.vocabulary import PADDING

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5  # tokenizer.ggml.token_type


def real_tokens(header: Header) -> dict[int, str]:
    """Id to text of every token that is not padding."""
    texts = header.need_all("tokenizer.ggml.tokens", str)
    kinds = header.need_all("tokenizer.ggml.token_type", int)
    if len(texts) != len(kinds) or not texts:
        raise ModelCorrupt(f"{header.path} has {len(texts)} tokens and {len(kinds)} types.")
    return {
        i: text
        for i, (text, kind) in enumerate(zip(texts, kinds, strict=True))
        if kind != UNUSED and not PADDING.fullmatch(text)
    }


def control_tokens(header: Header) -> dict[int, str]:
    """The real tokens that are no text; an ordinary one may be spelt `</s>` and mean just that."""
    kinds = header.need_all("tokenizer.ggml.token_type", int)
    return {i: t for i, t in real_tokens(header).items() if kinds[i] in (CONTROL, USER_DEFINED)}


_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_DEEPSEEK_CODER = (
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
)
_DIGITS = ("starcoder", "refact", "smollm", "command-r")
"""Split digits one by one, then as GPT-2 does."""


def _pre_tokenizer(header: Header) -> Any:
    """The splitting that `tokenizer.ggml.pre` names; a wrong one would give other ids silently."""
    name = header.get("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    if name in _DIGITS:
        return pre_tokenizers.Sequence([digits, gpt2])
    if name == "gpt-2":
        return gpt2
    if name == "deepseek-coder":
        splits = [pre_tokenizers.Split(Regex(r), "isolated") for r in _DEEPSEEK_CODER]
        return pre_tokenizers.Sequence([*splits, digits, byte_level])
    patterns = {"qwen2": _QWEN2, "llama-bpe": _LLAMA3, "default": _LLAMA3}
    if name not in patterns:
        raise ModelUnsupported(
            f"{header.path} splits text as `{name}`, which is not known here; use the model's "
            "safetensors directory with its own tokenizer.json."
        )
    split = pre_tokenizers.Split(Regex(patterns[name]), "isolated")
    return pre_tokenizers.Sequence([split, byte_level])


def build_tokenizer(header: Header) -> Tokenizer:
    """The tokenizer that the header describes, without padding tokens and without normalization."""
    kind = header.need("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise ModelUnsupported(
            f"{header.path} has a `{kind}` tokenizer; gpt2 and llama can be converted."
        )
    tokenizer = _byte_level(header) if kind == "gpt2" else _sentencepiece(header)
    kinds = header.fields["tokenizer.ggml.token_type"]
    added = [
        AddedToken(text, special=kinds[i] == CONTROL or text.startswith("<"), normalized=False)
        for i, text in real_tokens(header).items()
        if kinds[i] == CONTROL or (kinds[i] == USER_DEFINED and len(text) > 1)
    ]
    # A tag like <tool_call> or a FIM token is special even where the file says otherwise: only
    # special tokens can be kept from being read out of a user's text. Single characters are the
    # byte alphabet's rare letters; as added tokens they would shadow the same letter in a text.
    tokenizer.add_special_tokens([t for t in added if t.special])
    tokenizer.add_tokens([t for t in added if not t.special])
    if header.get("tokenizer.ggml.add_bos_token", False):
        bos = header.need("tokenizer.ggml.bos_token_id", int)
        text = real_tokens(header).get(bos, "")
        tokenizer.post_processor = TemplateProcessing(
            single=[text, "$A"], special_tokens=[(text, bos)]
        )
    return tokenizer


def _byte_level(header: Header) -> Tokenizer:
    merges = [tuple(m.split(" ", 1)) for m in header.need_all("tokenizer.ggml.merges", str)]
    vocab = {text: i for i, text in real_tokens(header).items()}
    llama3 = header.get("tokenizer.ggml.pre", "default") == "llama-bpe"
    try:
        tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges, ignore_merges=llama3))
    except Exception as exc:  # it raises nothing narrower
        raise ModelCorrupt(f"{header.path} has merges that do not fit its tokens ({exc}).") from exc
    tokenizer.pre_tokenizer = _pre_tokenizer(header)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(header: Header) -> Tokenizer:
    texts = real_tokens(header)
    scores = header.need_all("tokenizer.ggml.scores", float)
    if len(scores) <= max(texts, default=0):
        raise ModelCorrupt(f"{header.path} has {len(scores)} scores for its tokens.")
    unknown = texts.get(header.get("tokenizer.ggml.unknown_token_id", 0))
    vocab = {text: i for i, text in texts.items()}
    model = BPE(
        vocab=vocab,
        merges=_merges(vocab, scores),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    prefix = header.get("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _merges(vocab: dict[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """SentencePiece has scores, not merges: every split of a piece into two, best score first."""
    found: list[tuple[float, int, int, str, str]] = []
    for piece, i in vocab.items():
        splits = [(piece[:n], piece[n:]) for n in range(1, len(piece))]
        pairs = [(left, right) for left, right in splits if left in vocab and right in vocab]
        pairs.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        found += [(scores[i], len(left), len(right), left, right) for left, right in pairs]
    found.sort(key=lambda merge: merge[:3], reverse=True)
    return [(left, right) for *_, left, right in found]
