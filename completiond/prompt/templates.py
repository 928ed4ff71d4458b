"""The fill-in-the-middle families, as data: sentinels, order, stop tokens, how files are marked.

Knows token names and asks a vocabulary whether it has them; knows no token ids of its own and no
text of a user. Which family a model belongs to is read from the vocabulary, not from its name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import unquote

from completiond.errors import ModelUnsupported

PREFIX_ONLY = "none"
"""The template name that asks for text before the cursor and nothing else."""


class Vocabulary(Protocol):
    """What choosing a template needs of a tokenizer."""

    @property
    def name(self) -> str:
        """The model's name, for sentences to people."""

    def token_id(self, token: str) -> int | None:
        """The id that stands for exactly this token."""


@dataclass(frozen=True, slots=True)
class Files:
    """How a family marks the files of its context; a token that is missing means a comment.

    `before` opens each file, `after` closes it. `inside` puts the current file's path behind the
    prefix sentinel instead of before it. `repository` opens the name of the repository, which
    prompts of others may begin with.
    """

    before: str = ""
    after: str = ""
    repository: str = ""
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """One family. `marks` are further tokens that tell it from a family with the same sentinels."""

    name: str
    prefix: str
    suffix: str
    middle: str
    stop: tuple[str, ...]
    marks: tuple[str, ...] = ()
    bos: str = ""
    files: Files = Files()

    @property
    def sentinels(self) -> tuple[str, str, str]:
        return self.prefix, self.suffix, self.middle

    @property
    def required(self) -> tuple[str, ...]:
        """Tokens that a model of this family cannot be without."""
        return self.sentinels + ((self.bos,) if self.bos else ())

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token that the template names."""
        return self.sentinels + self.stop + self.marks + self.opening

    @property
    def opening(self) -> tuple[str, ...]:
        """Tokens that may stand in front of the sentinels."""
        files = self.files
        return tuple(t for t in (self.bos, files.repository, files.before, files.after) if t)

    def stop_ids(self, vocabulary: Vocabulary) -> list[int]:
        """Ids that end a fill, the sentinels among them; names without an id are left out."""
        found = (vocabulary.token_id(token) for token in self.sentinels + self.stop)
        return sorted({token for token in found if token is not None})


_STARCODER2 = Template(
    name="starcoder2",
    prefix="<fim_prefix>",
    suffix="<fim_suffix>",
    middle="<fim_middle>",
    stop=("<|endoftext|>", "<fim_pad>", "<file_sep>", "<repo_name>"),
    marks=("<file_sep>",),
    files=Files(before="<file_sep>", repository="<repo_name>", inside=True),
)
_STARCODER = replace(
    _STARCODER2,
    name="starcoder",
    stop=("<|endoftext|>", "<fim_pad>", "<filename>", "<reponame>", "<gh_stars>"),
    marks=(),
    files=Files(before="<filename>", repository="<reponame>"),
)
_QWEN = Template(
    name="qwen2.5-coder",
    prefix="<|fim_prefix|>",
    suffix="<|fim_suffix|>",
    middle="<|fim_middle|>",
    stop=("<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|im_end|>"),
    marks=("<|fim_pad|>", "<|file_sep|>"),
    files=Files(before="<|file_sep|>", repository="<|repo_name|>"),
)
_CODEGEMMA = Template(
    name="codegemma",
    prefix="<|fim_prefix|>",
    suffix="<|fim_suffix|>",
    middle="<|fim_middle|>",
    stop=("<|file_separator|>", "<eos>"),
    marks=("<|file_separator|>",),
    bos="<bos>",
    files=Files(after="<|file_separator|>"),
)
_CODELLAMA = Template(
    name="codellama",
    prefix="▁<PRE>",
    suffix="▁<SUF>",
    middle="▁<MID>",
    stop=("▁<EOT>", "</s>"),
    bos="<s>",
)
_DEEPSEEK = Template(
    name="deepseek-coder",
    prefix="<｜fim▁begin｜>",
    suffix="<｜fim▁hole｜>",
    middle="<｜fim▁end｜>",
    stop=("<｜end▁of▁sentence｜>", "<|EOT|>"),
    bos="<｜begin▁of▁sentence｜>",
)

FAMILIES = (_STARCODER2, _STARCODER, _QWEN, _CODEGEMMA, _CODELLAMA, _DEEPSEEK)
"""In the order in which a vocabulary is asked: a family with marks before the one without."""

BY_NAME = {template.name: template for template in FAMILIES}

SENTINELS = frozenset(token for family in FAMILIES for token in family.sentinels)
CONTROL_TOKENS = frozenset(token for family in FAMILIES for token in family.tokens)
"""Never to be made from a user's text, even if a tokenizer file adds them as plain tokens."""


_COMMENTS = {
    "#": "python ruby perl r shellscript yaml toml dockerfile makefile elixir julia nim tcl",
    "--": "lua sql haskell elm ada vhdl",
    "%": "erlang latex tex matlab prolog",
    ";": "clojure lisp scheme ini asm",
    "<!-- -->": "html xml markdown vue svelte",
    "/* */": "css",
}
_COMMENT_OF = {lang: mark for mark, langs in _COMMENTS.items() for lang in langs.split()}


def comment(text: str, language: str) -> str:
    """`text` as a comment line of `language`; a language that is not known gets `//`."""
    opening, _, closing = _COMMENT_OF.get(language, "//").partition(" ")
    return f"{opening} {text} {closing}".rstrip()


def relative(path: str) -> str:
    """`path` as a prompt may show it: inside the workspace, or the file's name alone."""
    plain = unquote(path.removeprefix("file://")) if path.startswith("file:") else path
    shown = " ".join(plain.replace("\\", "/").split())
    outside = shown.startswith(("/", "../")) or re.match(r"[A-Za-z][\w+.-]*:", shown)
    return shown.rpartition("/")[2] if outside else shown.removeprefix("./")


def choose(vocabulary: Vocabulary, name: str = "") -> Template | None:
    """The template `name`, or the one that the vocabulary holds; None means prefix-only.

    Raises ModelUnsupported if a template asked for by name does not fit the vocabulary.
    """
    if name == PREFIX_ONLY:
        return None
    if name:
        return _named(vocabulary, name)
    fits = (t for t in FAMILIES if not _missing(vocabulary, t.required + t.marks))
    return next(fits, None)


def _named(vocabulary: Vocabulary, name: str) -> Template:
    template = BY_NAME.get(name)
    if template is None:
        raise ModelUnsupported(
            f"There is no template {name!r}; set model.template to one of "
            f"{', '.join(BY_NAME)}, to `{PREFIX_ONLY}`, or leave it empty."
        )
    missing = _missing(vocabulary, template.required)
    if missing:
        raise ModelUnsupported(
            f"The model {vocabulary.name!r} has no single token {missing[0]!r}, which the template "
            f"{name!r} needs; {_advice(vocabulary)}."
        )
    return template


def _missing(vocabulary: Vocabulary, tokens: tuple[str, ...]) -> list[str]:
    return [token for token in tokens if vocabulary.token_id(token) is None]


def _advice(vocabulary: Vocabulary) -> str:
    fitting = choose(vocabulary)
    if fitting is None:
        return f"set model.template to `{PREFIX_ONLY}`: this vocabulary fits no template"
    return f"set model.template to `{fitting.name}` or leave it empty"


@dataclass(frozen=True, slots=True)
class KnownFill:
    """A gap that every model trained to fill can close."""

    prefix: str
    suffix: str
    expected: str
    """Regular expression that the fill must start with."""


KNOWN_FILL = KnownFill(
    prefix="def add(first, second):\n    return first",
    suffix="\n\n\nassert add(2, 3) == 5\n",
    expected=r"\s*\+\s*second\b",
)


def self_test(complete: Callable[[str, str], str]) -> str | None:
    """Run the known fill through `complete(prefix, suffix)`; the sentence of warning, or None."""
    fill = complete(KNOWN_FILL.prefix, KNOWN_FILL.suffix)
    if re.match(KNOWN_FILL.expected, fill):
        return None
    shown = fill if len(fill) <= 60 else fill[:60] + "…"
    return (
        f"The model filled `return first…` with {shown!r} instead of ` + second`; if its other "
        "answers look wrong as well, check model.template, or whether it was trained to fill."
    )
