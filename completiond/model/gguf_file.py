"""The header of a GGUF file: its metadata and where its tensors lie.

Knows the layout of versions 2 and 3, and that a file must be as long as its header says. Reads
no tensor data and does not know what the metadata means.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gguf

from completiond.errors import ModelCorrupt, ModelUnsupported


class Tensor(NamedTuple):
    """Where a tensor lies: its `start` in the file, `size` in bytes, `shape` as torch says it."""

    shape: tuple[int, ...]
    kind: gguf.GGMLQuantizationType
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """All of a GGUF file but the tensors' data."""

    path: Path
    fields: dict[str, Any]
    tensors: dict[str, Tensor]

    def need(self, key: str, kind: type) -> Any:
        """A metadata value of the given type; ModelCorrupt without it."""
        value = self.fields.get(key)
        if isinstance(value, int) and kind is float:
            value = float(value)
        if not isinstance(value, kind):
            raise ModelCorrupt(f"{self.path} has no usable `{key}`; get the file again.")
        return value

    def need_all(self, key: str, kind: type) -> list[Any]:
        """A metadata list of values of one type; ModelCorrupt without it."""
        values = self.need(key, list)
        if not all(isinstance(value, kind) for value in values):
            raise ModelCorrupt(f"{self.path} has no usable `{key}`; get the file again.")
        return list(values)

    def get(self, key: str, default: Any) -> Any:
        """A metadata value of the default's type, or the default where the file has none."""
        return self.need(key, type(default)) if key in self.fields else default

    @property
    def architecture(self) -> str:
        return str(self.need("general.architecture", str))


class _Cursor:
    """Takes values off a buffer in order; struct.error and ValueError mean a damaged file."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"} | {
        10: "Q",
        11: "q",
        12: "d",
    }

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def text(self) -> str:
        end = self.take("Q") + self.at
        if end > len(self.data):
            raise ValueError("a string reaches beyond the end")
        raw = self.data[self.at : end]
        self.at = end
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("I"), self.take("Q")
            if count > len(self.data):
                raise ValueError("an array is longer than the file")
            return [self.value(inner) for _ in range(count)]
        if kind not in self.SCALARS:
            raise ValueError(f"a value of type {kind}")
        return self.take(self.SCALARS[kind])


def read_header(path: Path) -> Header:
    """The metadata and the tensors' places; checks that the file is as long as they say."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"GGUF":
                raise ModelCorrupt(f"{path} is not a GGUF file; get the file again.")
            return _parse(path, data)
    except (struct.error, ValueError, OverflowError, KeyError, MemoryError) as exc:
        raise ModelCorrupt(f"{path} is cut short or damaged ({exc}); get it again.") from exc
    except OSError as exc:
        raise ModelCorrupt(f"{path} cannot be read ({exc.strerror}).") from exc


def _parse(path: Path, data: mmap.mmap) -> Header:
    cursor = _Cursor(data)
    cursor.at = 4
    version, tensor_count, field_count = (cursor.take(code) for code in "IQQ")
    if version not in (2, 3):
        raise ModelUnsupported(f"{path} is GGUF version {version}; versions 2 and 3 can be read.")
    fields: dict[str, Any] = {}
    for _ in range(field_count):
        key = cursor.text()
        fields[key] = cursor.value(cursor.take("I"))
    places = [_tensor_info(cursor) for _ in range(tensor_count)]
    align = fields.get("general.alignment", 32)
    if not isinstance(align, int) or align < 1:
        raise ValueError(f"an alignment of {align}")
    base = -(-cursor.at // align) * align
    tensors = {name: info._replace(start=base + info.start) for name, info in places}
    end = max((t.start + t.size for t in tensors.values()), default=0)
    if end > len(data):
        raise ValueError(f"{len(data)} bytes of {end}")
    return Header(path, fields, tensors)


def _tensor_info(cursor: _Cursor) -> tuple[str, Tensor]:
    name, dims = cursor.text(), cursor.take("I")
    if not 1 <= dims <= 4:
        raise ValueError(f"tensor {name} has {dims} dimensions")
    shape = tuple(cursor.take("Q") for _ in range(dims))[::-1]
    kind = gguf.GGMLQuantizationType(cursor.take("I"))
    start = cursor.take("Q")
    elements, per_block = gguf.GGML_QUANT_SIZES[kind]
    count = 1
    for side in shape:
        count *= side
    if not count or shape[-1] % elements:
        raise ValueError(f"tensor {name} has shape {shape}")
    return name, Tensor(shape, kind, start, count // elements * per_block)
