"""The one configuration tree. Knows defaults, TOML, environment and flags; reads nothing else.

Order: the default on the field < config.toml < COMPLETIOND_<SECTION>_<KEY> < flags. Nobody writes
to a Config after it is made. Unknown keys are errors that name the key and the nearest valid one.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs
from cattrs import Converter
from cattrs.errors import BaseValidationError

from completiond.errors import ConfigError

APP = "completiond"
ENV_PREFIX = "COMPLETIOND"
ENV_PLACES = (
    "COMPLETIOND_CACHE",
    "COMPLETIOND_CONFIG",
    "COMPLETIOND_RUNTIME_DIR",
    "COMPLETIOND_STATE",
)
"""Variables of ours that are no keys: they say where things are."""


def cache_dir() -> Path:
    """Where models live: `COMPLETIOND_CACHE`, or the user's cache directory."""
    return Path(os.environ.get("COMPLETIOND_CACHE") or platformdirs.user_cache_dir(APP))


def state_dir() -> Path:
    """Where the record, the daemon's log and a measurement's page are: `COMPLETIOND_STATE`, or the
    user's state directory."""
    return Path(os.environ.get("COMPLETIOND_STATE") or platformdirs.user_state_dir(APP))


def config_file() -> Path:
    """The user's config.toml: `COMPLETIOND_CONFIG`, or the user's config directory."""
    given = os.environ.get("COMPLETIOND_CONFIG")
    return Path(given) if given else Path(platformdirs.user_config_dir(APP)) / "config.toml"


@dataclass(frozen=True, slots=True)
class Model:
    """What is served."""

    name: str = "qwen2.5-coder-0.5b"
    """Registry name, local directory or hub id of the target."""
    draft: str = ""
    """The same for a small draft model; empty means none."""
    template: str = ""
    """FIM template by name; empty: the one that the vocabulary says; `none`: prefix-only."""
    context: int = 4096
    """Tokens of one prompt and its answer together; cut to the model's own limit."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How it is computed."""

    device: str = "auto"
    """`auto`, `cpu` or `cuda:N`."""
    threads: int = 0
    """CPU threads; 0 means one per core."""
    kernel: str = "auto"
    """Linear layers on CPU: `int8`, `bf16`, `fp32` or `auto` (what measures best at the first
    start)."""
    isa: str = "auto"
    """Most that is used of the CPU's instructions: `auto` (all), `vnni`, `avx512` or `avx2`."""
    kv_mb: int = 0
    """Budget of the KV cache, MiB; idle buffers are evicted first. 0 means 512 on a processor, and
    on a GPU what the weights leave."""
    graphs: int = 32
    """Shapes of passes that are kept recorded on a GPU; 0 means none."""
    pass_ms: float = 0.0
    """Aim for the longest pass, milliseconds; prefill is cut into chunks that fit it. 0 means 55,
    or two and a half times a pass of one token where that is more."""
    speculation: str = "auto"
    """What proposes tokens: `auto` (all that pays here), `off`, or a list of `recycled`, `suffix`,
    `lookup`, `token_recycling`, `small_model`, `lookahead`, `early_exit`."""
    policy: str = "auto"
    """How much of it is verified: `auto` (by measured costs), `simple` (halved while less than half
    is accepted, none below 0.3) or `fixed` (always draft_tokens)."""
    draft_tokens: int = 31
    """Longest proposal, tokens."""


@dataclass(frozen=True, slots=True)
class Serve:
    """Who may ask."""

    endpoint: str = ""
    """`ipc://PATH` or `tcp://HOST:PORT`; empty means ipc in the runtime directory."""
    insecure_loopback: bool = False
    """Allow tcp on a loopback address without CURVE keys."""
    queue: int = 256
    """Requests that may wait in all; more are refused."""
    clients: int = 256
    """Clients that are remembered; the longest idle is forgotten first."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What is answered when the request does not say."""

    max_tokens: int = 64
    max_ms: int = 10_000
    layout: str = "auto"
    """Where the prompt is split: `long` (some lines up, staying there while one types on, healed),
    `line` (start of the cursor's line, healed), `suffix_first` or `cursor`; `auto` is what the
    model answers best with, by its size."""
    prefix_tokens: int = 1536
    suffix_tokens: int = 512
    prefetch: bool = True
    """While an answer is shown and nothing else is asked, compute what follows if it is taken."""
    gate: bool = True
    """Start no run by itself where an answer is no help: inside a word, in front of text on the
    line, behind a complete statement, in an all but empty document. Asked by hand it runs."""
    min_chars: int = 1
    """Shorter answers are not shown, unless a person asks."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is written down about each key (docs/record.md)."""

    enabled: bool = True
    text: bool = False
    """Also the text around the cursor and the answers: only so can a session be replayed."""
    days: int = 30
    """Older keys are removed."""
    mb: int = 300
    """Most that the record takes of the disk, MiB; the oldest keys go first."""
    otlp: str = ""
    """Address of an OpenTelemetry collector (OTLP over http) that is told each key, without text
    and paths; empty: none."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """How `completiond dashboard` shows the record."""

    port: int = 0
    """Its port on the loopback address; 0 is any free one."""
    metrics_token: str = ""
    """With it, and only then, Prometheus may read /metrics; 16 characters at least."""


@dataclass(frozen=True, slots=True)
class Http:
    """The web server of the daemon, for editors that ask an OpenAI-compatible one."""

    port: int = 0
    """Its port on the loopback address; 0 means that there is none."""
    key: str = ""
    """What clients must send as bearer key; 16 characters at least. Without one
    serve.insecure_loopback must be set: every user of the machine can ask then."""
    max_tokens: int = 256
    """Longest answer, tokens, whatever is asked for."""


@dataclass(frozen=True, slots=True)
class Config:
    model: Model = field(default_factory=Model)
    engine: Engine = field(default_factory=Engine)
    serve: Serve = field(default_factory=Serve)
    completion: Completion = field(default_factory=Completion)
    record: Record = field(default_factory=Record)
    dashboard: Dashboard = field(default_factory=Dashboard)
    http: Http = field(default_factory=Http)


_converter = Converter(forbid_extra_keys=True)
_FLAGS = {"model.name": "--model", "http.port": "--http"}
"""The flags that are called otherwise than their keys."""


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration from all sources; `flags` maps "section.key" to a value, None is unset.

    Raises ConfigError with one sentence that names the source and the key.
    """
    tree: dict[str, dict[str, Any]] = {}
    named: dict[str, str] = {}
    path = file or config_file()
    for section, keys in _read_toml(path).items():
        if not isinstance(keys, dict):
            raise ConfigError(f"{path}: `{section}` must be a [section], not a value.")
        for key, value in keys.items():
            _put(tree, named, (section, key), value, str(path))
    for name, text in (os.environ if environ is None else environ).items():
        section, key = _split_env(name)
        if section:
            _put(tree, named, (section, key), text, name)
    for dotted, value in (flags or {}).items():
        if value is not None:
            section, _, key = dotted.partition(".")
            flag = _FLAGS.get(dotted) or f"--{key.replace('_', '-')}"
            _put(tree, named, (section, key), value, flag)
    return _structure(tree, named)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read as TOML ({exc}); mend or remove it.") from exc


def _split_env(name: str) -> tuple[str, str]:
    """("section", "key") of a variable of ours, ("", "") of any other."""
    prefix, _, rest = name.partition("_")
    if prefix != ENV_PREFIX or not rest or name in ENV_PLACES:
        return "", ""
    section, _, key = rest.lower().partition("_")
    return section, key


def _put(
    tree: dict[str, dict[str, Any]],
    named: dict[str, str],
    place: tuple[str, str],
    value: Any,
    source: str,
) -> None:
    """Into the tree, and into `named` how an error speaks of it: with where it comes from."""
    section, key = place
    sections = {f.name: f.default_factory for f in fields(Config)}
    if section not in sections:
        raise ConfigError(f"{source}: unknown section [{section}]{_near(section, sections)}")
    known = {f.name: f.type for f in fields(sections[section])}  # type: ignore[arg-type]
    if key not in known:
        raise ConfigError(f"{source}: unknown key `{section}.{key}`{_near(key, known)}")
    name = f"{section}.{key}"
    named[name] = f"{source}: {name}"
    tree.setdefault(section, {})[key] = _parse(value, known[key], named[name])


def _near(word: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean `{close[0]}`?" if close else f"; known are {', '.join(known)}."


def _parse(value: Any, kind: Any, where: str) -> Any:
    """`value` as the field's type; text from the environment is parsed, wrong types are refused."""
    if isinstance(value, str) and kind is bool:
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if value.lower() in words:
            return words[value.lower()]
        raise ConfigError(f"{where} must be true or false, not {value!r}.")
    if isinstance(value, bool) is not (kind is bool):
        raise ConfigError(f"{where} must be of type {kind.__name__}, not {value!r}.")
    if kind is int and isinstance(value, float):
        raise ConfigError(f"{where} must be a whole number, not {value!r}.")
    try:
        return kind(value) if kind is not str or isinstance(value, str) else _refuse(value)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{where} must be of type {kind.__name__}, not {value!r}.") from exc


def _refuse(value: Any) -> str:
    raise TypeError(value)


_CHOICES = {
    ("engine", "kernel"): {"auto", "int8", "bf16", "fp32"},
    ("engine", "isa"): {"auto", "vnni", "avx512", "avx2"},
    ("engine", "policy"): {"auto", "simple", "fixed"},
    ("completion", "layout"): {"auto", "line", "long", "cursor", "suffix_first"},
}
LEAST_TOKEN = 16
_DRAFTERS = {
    "recycled",
    "suffix",
    "lookup",
    "token_recycling",
    "small_model",
    "lookahead",
    "early_exit",
}
_CHOSEN_AT_0 = {("engine", "kv_mb")}
_RANGES = {
    ("model", "context"): (64, 1 << 20),
    ("engine", "threads"): (0, 1024),
    ("engine", "kv_mb"): (16, 1 << 20),
    ("engine", "graphs"): (0, 1000),
    ("engine", "pass_ms"): (0.0, 10_000.0),
    ("engine", "draft_tokens"): (0, 64),
    ("serve", "queue"): (1, 100_000),
    ("serve", "clients"): (1, 100_000),
    ("completion", "max_tokens"): (1, 4096),
    ("completion", "max_ms"): (10, 600_000),
    ("completion", "prefix_tokens"): (1, 1 << 20),
    ("completion", "suffix_tokens"): (0, 1 << 20),
    ("completion", "min_chars"): (1, 1000),
    ("record", "days"): (1, 3650),
    ("record", "mb"): (4, 1 << 20),
    ("dashboard", "port"): (0, 65_535),
    ("http", "port"): (0, 65_535),
    ("http", "max_tokens"): (1, 4096),
}


def _structure(tree: dict[str, dict[str, Any]], named: Mapping[str, str]) -> Config:
    try:
        config = _converter.structure(tree, Config)
    except BaseValidationError as exc:
        raise ConfigError(f"The configuration does not hold together: {exc}.") from exc
    if not config.model.name:
        raise ConfigError(
            f"{named['model.name']} is empty; `completiond models list` shows what there is."
        )
    for (section, key), allowed in _CHOICES.items():
        value = getattr(getattr(config, section), key)
        if value not in allowed:
            name = named[f"{section}.{key}"]
            raise ConfigError(f"{name} must be one of {', '.join(sorted(allowed))}, not {value!r}.")
    _check_speculation(config.engine.speculation, config.model.draft, named)
    _check_tokens(config, named)
    if config.record.otlp and not config.record.otlp.startswith(("http://", "https://")):
        raise ConfigError(
            f"{named['record.otlp']} must be the address of a collector, as "
            "http://127.0.0.1:4318/v1/traces."
        )
    for (section, key), (low, high) in _RANGES.items():
        value = getattr(getattr(config, section), key)
        if not low <= value <= high and not (value == 0 and (section, key) in _CHOSEN_AT_0):
            name = named[f"{section}.{key}"]
            raise ConfigError(f"{name} must be between {low} and {high}, not {value}.")
    return config


def _check_speculation(value: str, draft: str, named: Mapping[str, str]) -> None:
    sources = {name.strip() for name in value.split(",")}
    if value not in ("auto", "off") and not sources <= _DRAFTERS:
        raise ConfigError(
            f"{named['engine.speculation']} must be one of auto and off, or a list of "
            f"{', '.join(sorted(_DRAFTERS))}, not {value!r}."
        )
    if "small_model" in sources and not draft:
        raise ConfigError(
            f"{named['engine.speculation']} names small_model, which drafts with model.draft; name "
            "a small model of the same vocabulary there."
        )


def _check_tokens(config: Config, named: Mapping[str, str]) -> None:
    tokens = {
        "dashboard.metrics_token": config.dashboard.metrics_token,
        "http.key": config.http.key,
    }
    for name, token in tokens.items():
        if 0 < len(token) < LEAST_TOKEN:
            raise ConfigError(f"{named[name]} has under {LEAST_TOKEN} characters; use more.")
    if config.http.port and not config.http.key and not config.serve.insecure_loopback:
        raise ConfigError(
            f"{named['http.port']} is set without http.key: set one of 16 characters or more, or "
            "allow every user of this machine to ask with serve.insecure_loopback."
        )
