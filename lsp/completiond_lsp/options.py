"""The editor's settings. Knows their names, types and defaults; a bad one warns and is ignored.

They come from `initializationOptions` and from the section `completiond` of the configuration,
flat or under the key `completiond`.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

SECTION = "completiond"
OTHERS = {"editorInfo", "editorPluginInfo", "trace"}
"""Keys that clients put beside ours."""


@dataclass(frozen=True, slots=True)
class Options:
    enabled: bool = True
    endpoint: str = ""
    """Where the daemon listens; empty: as its own configuration says."""
    start_daemon: bool = True
    """Start a daemon if none runs."""
    model: str = ""
    """Empty: the one that is served."""
    max_tokens: int = field(default=0, metadata={"low": 0, "high": 4096})
    """0: the daemon's default."""
    max_ms: int = field(default=0, metadata={"low": 0, "high": 600_000})
    """0: the daemon's default."""
    disabled_languages: tuple[str, ...] = ()
    fallback_completion: bool = False
    """Offer an item in the completion popup to an editor that draws no ghost text."""
    context: bool = False
    """Send what other files say: definitions, recent edits, similar code. Off until it is shown to
    pay for the prefill that a new list costs."""
    context_tokens: int = field(default=1024, metadata={"low": 0, "high": 8192})
    """About how much of it."""

    tab_size: int = field(default=0, metadata={"low": 0, "high": 16})
    """Blanks of one level of indentation; 0: as the file is indented."""
    insert_spaces: bool = True
    """With a tab size: indent with blanks, not with tabs."""

    @property
    def indent(self) -> str:
        """One level of indentation, if the editor said it."""
        return (" " * self.tab_size if self.insert_spaces else "\t") if self.tab_size else ""

    def wants(self, language: str) -> bool:
        return self.enabled and language not in self.disabled_languages


def parse(raw: Any, base: Options) -> tuple[Options, list[str]]:
    """`base` with what `raw` says, and one sentence for each thing in it that is not understood."""
    if raw is None:
        return base, []
    if not isinstance(raw, Mapping):
        return base, [f"The settings of completiond must be an object, not {raw!r:.40}."]
    nested = raw.get(SECTION)
    raw = nested if isinstance(nested, Mapping) else raw
    found: dict[str, Any] = {}
    warnings: list[str] = []
    for key, value in raw.items():
        if key in OTHERS or value is None:
            continue
        try:
            found[_NAMES[key].name] = _value(key, value)
        except KeyError:
            warnings.append(f"Unknown setting `completiond.{key}`{_near(key)}; it is ignored.")
        except ValueError as exc:
            warnings.append(f"The setting `completiond.{key}` {exc}; it is ignored.")
    return replace(base, **found), warnings


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


_NAMES = {_camel(option.name): option for option in fields(Options)}


def _value(key: str, value: Any) -> Any:
    option = _NAMES[key]
    kind = type(option.default)
    fits, what = _KINDS[kind]
    if not fits(value):
        raise ValueError(f"must be {what}, not {value!r:.40}")
    if kind is int and not option.metadata["low"] <= value <= option.metadata["high"]:
        raise ValueError(
            f"must be from {option.metadata['low']} to {option.metadata['high']}, not {value}"
        )
    return tuple(value) if kind is tuple else value


_KINDS: dict[type[Any], tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: type(value) is bool, "true or false"),
    int: (lambda value: type(value) is int, "a whole number"),
    str: (lambda value: isinstance(value, str), "a text"),
    tuple: (
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
        "a list of language ids",
    ),
}


def _near(key: str) -> str:
    close = difflib.get_close_matches(key, _NAMES, 1)
    return f" (did you mean `{close[0]}`?)" if close else ""
