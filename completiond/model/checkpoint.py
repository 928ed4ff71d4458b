"""What a model directory says about itself: its vocabulary, ends, context and weight files.

Knows the layout that transformers writes (config.json, *.safetensors, tokenizer.json) and refuses
pickles. Reads no tensor data and does not know the cache or the hub.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.vocabulary import end_ids, real_size, token_texts

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk, ready to be loaded. `directory` holds config, safetensors and tokenizer."""

    name: str
    directory: Path
    vocab_size: int
    """Highest real token id + 1; rows of the embedding beyond it are padding."""
    eos_ids: tuple[int, ...]
    context: int
    """Positions the model was made for."""
    architecture: str
    """`model_type` of config.json."""
    bytes: int

    def plain(self) -> dict[str, Any]:
        """For another process, which then need not look at the files: a vocabulary is large."""
        return asdict(self) | {"directory": str(self.directory)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "ModelFiles":
        """What `plain` told."""
        paths = {"directory": Path(plain["directory"]), "eos_ids": tuple(plain["eos_ids"])}
        return cls(**{**plain, **paths})


def describe(name: str, directory: Path) -> ModelFiles:
    """The facts of a directory of safetensors.

    Raises ModelUnsupported for a pickle or no model at all, ModelCorrupt for a damaged one.
    """
    weights = _weights(directory)
    config = _json(directory / "config.json")
    if not (directory / "tokenizer.json").is_file():
        raise ModelUnsupported(
            f"{directory} has no tokenizer.json; save the model's fast tokenizer there."
        )
    texts = token_texts(directory / "tokenizer.json")
    generation = directory / "generation_config.json"
    named = _ids(config.get("eos_token_id"))
    if generation.is_file():
        named += _ids(_json(generation).get("eos_token_id"))
    rows = config.get("vocab_size")
    size = real_size(texts.every)
    context = config.get("max_position_embeddings") or config.get("n_positions")
    architecture = config.get("model_type")
    if not isinstance(context, int) or not isinstance(architecture, str):
        raise ModelUnsupported(
            f"{directory / 'config.json'} names no model_type or no max_position_embeddings; "
            "it is not a causal language model that can be served."
        )
    return ModelFiles(
        name=name,
        directory=directory,
        vocab_size=min(size, rows) if isinstance(rows, int) else size,
        eos_ids=end_ids(texts.added, [i for i in named if i < size]),
        context=context,
        architecture=architecture,
        bytes=sum(file.stat().st_size for file in weights),
    )


def gguf_in(directory: Path) -> Path | None:
    """The directory's one GGUF file, if it holds its weights; None where there are safetensors."""
    found = sorted(directory.glob("*.gguf"))
    if not found or any(directory.glob("*.safetensors")):
        return None
    if len(found) > 1:
        raise ModelUnsupported(f"{directory} holds several GGUF files; name one, as {found[0]}.")
    return found[0]


def _weights(directory: Path) -> list[Path]:
    """The safetensors files, all there and all as long as they say."""
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        names = _json(index).get("weight_map")
        if not isinstance(names, dict) or not names:
            raise ModelCorrupt(f"{index} names no weights; get the model again.")
        files = sorted({directory / str(name) for name in names.values()})
    else:
        whole = directory / "model.safetensors"
        files = [whole] if whole.is_file() else sorted(directory.glob("*.safetensors"))
    if not files:
        raise _no_weights(directory)
    for file in files:
        _check(file)
    return files


def _no_weights(directory: Path) -> ModelUnsupported:
    if any(path for pattern in PICKLES for path in directory.glob(pattern)):
        return ModelUnsupported(
            f"{directory} holds its weights as a pickle, which can run code when read; convert "
            "them to safetensors or use a copy that has them."
        )
    return ModelUnsupported(f"{directory} holds no model: there is no *.safetensors and no *.gguf.")


def _check(file: Path) -> None:
    """The header of a safetensors file must be readable and fit the file's length."""
    try:
        length = file.stat().st_size
        with file.open("rb") as data:
            (size,) = struct.unpack("<Q", data.read(8))
            head = json.loads(data.read(min(size, length)))
        end = max(t["data_offsets"][1] for key, t in head.items() if key != "__metadata__")
    except OSError as exc:
        raise ModelCorrupt(f"{file} cannot be read ({exc.strerror}); get it again.") from exc
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
        raise ModelCorrupt(f"{file} is not a safetensors file; get it again.") from exc
    if length != 8 + size + end:
        raise ModelCorrupt(f"{file} is cut short or damaged; get it again.")


def _json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise ModelUnsupported(f"{path.parent} has no {path.name}; it is not a model.") from exc
    except (OSError, ValueError) as exc:
        raise ModelCorrupt(f"{path} cannot be read as JSON; get the model again.") from exc
    if not isinstance(tree, dict):
        raise ModelCorrupt(f"{path} is not what it should be; get the model again.")
    return tree


def _ids(value: Any) -> list[int]:
    """An `eos_token_id` is one id, a list of them, or null."""
    found = value if isinstance(value, list) else [value]
    return [i for i in found if isinstance(i, int)]
