"""A conversion gives the model and the tokenizer that the file describes, or one clear sentence."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tiny_gguf
import tokenizers
import torch
import transformers
from safetensors.torch import load_file

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.convert import Converted, convert
from completiond.model.gguf_file import read_header
from completiond.model.gguf_tokenizer import build_tokenizer

VOCAB = Path(__file__).parents[3] / "shared/data/vocab"
IDS = torch.arange(0, 250, 7)[None]


def converted(source: Path, directory: Path) -> Converted:
    directory.mkdir()
    return convert(source, directory, lambda done, total, what: None)


def logits(directory: Path, **how: Any) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, **how)
    with torch.no_grad():
        return model(IDS).logits


# Tokens


@pytest.mark.skipif(not VOCAB.is_dir(), reason=f"no vocabularies in {VOCAB}")
@pytest.mark.parametrize("name", ["starcoder", "refact", "deepseek-coder", "llama-spm"])
def test_tokenizer_gives_every_reference_vector_and_the_text_back(name: str) -> None:
    path = VOCAB / f"ggml-vocab-{name}.gguf"
    tokenizer = build_tokenizer(read_header(path))
    texts = Path(f"{path}.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    wanted = [
        [int(i) for i in line.split()] for line in Path(f"{path}.out").read_text().splitlines()
    ]
    assert len(wanted) == 46 <= len(texts)
    for text, ids in zip(texts, wanted, strict=False):
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids, repr(text)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.skipif(not VOCAB.is_dir(), reason=f"no vocabularies in {VOCAB}")
def test_fim_tokens_are_special_even_where_the_file_calls_them_user_defined() -> None:
    tokenizer = build_tokenizer(read_header(VOCAB / "ggml-vocab-deepseek-coder.gguf"))
    text = "<｜fim▁begin｜>"
    assert tokenizer.encode(text, add_special_tokens=False).ids == [32016]
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > 1 and max(ids) < 32000
    assert tokenizer.get_vocab_size() == 32022  # [PAD32022] and on are no tokens


@pytest.mark.skipif(not VOCAB.is_dir(), reason=f"no vocabularies in {VOCAB}")
def test_a_letter_that_is_also_a_name_of_a_byte_is_text() -> None:
    tokenizer = build_tokenizer(read_header(VOCAB / "ggml-vocab-deepseek-coder.gguf"))
    ids = tokenizer.encode("õ ÿ", add_special_tokens=False).ids
    assert max(ids) < 32000 and tokenizer.decode(ids) == "õ ÿ"


def test_text_is_never_normalized(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(read_header(tiny_gguf.write(tmp_path / "m.gguf")))
    for text in ("e\u0301 \u1e9b\u0323", "\r\n\t x", "[PAD270]", "</s>"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("qwen2", ["x", "1", "2", "3", "4"]),
        ("llama-bpe", ["x", "123", "4"]),
        ("smollm", ["x", "1", "2", "3", "4"]),
        ("gpt-2", ["x", "1234"]),
    ],
)
def test_digits_are_split_as_the_named_pre_tokenizer_does(
    tmp_path: Path, pre: str, pieces: list[str]
) -> None:
    tokenizer = build_tokenizer(read_header(tiny_gguf.write(tmp_path / "m.gguf", pre=pre)))
    assert [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("x1234")] == pieces


# The model


@pytest.mark.parametrize("arch", ["qwen2", "llama"])
def test_the_model_comes_back_from_gguf_with_its_own_logits(tmp_path: Path, arch: str) -> None:
    """Against a transformers model written to GGUF by llama.cpp's rules, q/k permuted."""
    model = random_model(arch)
    model.save_pretrained(tmp_path / "original")
    write_like_llama_cpp(model, tmp_path / "m.gguf")
    made = converted(tmp_path / "m.gguf", tmp_path / "out")
    want = logits(tmp_path / "original")
    assert torch.equal(logits(tmp_path / "out"), want[..., : made.vocab_size])


@pytest.mark.parametrize("arch", ["qwen2", "llama"])
def test_logits_equal_those_of_transformers_own_gguf_loader(tmp_path: Path, arch: str) -> None:
    pytest.importorskip("accelerate", reason="transformers loads GGUF only with accelerate")
    tiny_gguf.write(tmp_path / "m.gguf", arch)
    converted(tmp_path / "m.gguf", tmp_path / "out")
    want = logits(tmp_path, gguf_file="m.gguf", dtype=torch.bfloat16)
    assert torch.equal(logits(tmp_path / "out"), want[..., : tiny_gguf.REAL])


def random_model(arch: str) -> Any:
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": len(tiny_gguf.vocabulary()[0]),
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
    }
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(arch, **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, mean=float("norm" in name), std=0.2)
    return model.to(torch.bfloat16)


def write_like_llama_cpp(model: Any, path: Path) -> None:
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    names |= {f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"}
    names |= {"self_attn.o_proj": "attn_output"}
    names |= {f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")}
    names |= {"model.layers.": "blk.", "embed_tokens": "token_embd", "lm_head": "output"}
    names |= {"model.norm": "output_norm", "model.": ""}
    tensors = {}
    for name, weight in model.state_dict().items():
        value = weight.float().numpy()
        if model.config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = 4 if "q_proj" in name else 2
            value = value.reshape(heads, 2, -1, 64).swapaxes(1, 2).reshape(value.shape)
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        tensors[name] = np.ascontiguousarray(value)
    everything = tuple(tiny_gguf.tensors(model.config.model_type, False))
    tiny_gguf.write(path, model.config.model_type, drop=everything, extra=tensors)


def test_padding_rows_are_cut_and_ends_found(tmp_path: Path) -> None:
    made = converted(tiny_gguf.write(tmp_path / "m.gguf"), tmp_path / "out")
    weights = load_file(tmp_path / "out/model.safetensors")
    texts = tiny_gguf.vocabulary()[0]
    assert made.vocab_size == tiny_gguf.REAL == len(texts) - tiny_gguf.PADDING
    assert weights["model.embed_tokens.weight"].shape[0] == tiny_gguf.REAL
    assert weights["lm_head.weight"].shape[0] == tiny_gguf.REAL
    assert [texts[i] for i in made.eos_ids] == ["<|endoftext|>", "<|im_end|>"]  # not `</s>`
    assert made.context == 512 and made.architecture == "qwen2"
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json")).get_vocab_size()


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_is_tied_only_where_the_file_has_none(tmp_path: Path, tied: bool) -> None:
    converted(tiny_gguf.write(tmp_path / "m.gguf", tied=tied), tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text("utf-8"))
    assert config["tie_word_embeddings"] is tied
    assert ("lm_head.weight" in load_file(tmp_path / "out/model.safetensors")) is not tied


def test_bf16_is_rounded_as_torch_rounds(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf")
    converted(path, tmp_path / "out")
    (read,) = [t for t in gguf.GGUFReader(path).tensors if t.name == "blk.0.attn_q.weight"]
    values = torch.from_numpy(gguf.quants.dequantize(read.data, read.tensor_type))
    ours = load_file(tmp_path / "out/model.safetensors")["model.layers.0.self_attn.q_proj.weight"]
    assert torch.equal(ours, values.to(torch.bfloat16))


def test_linear_position_scaling_is_kept_and_others_are_refused(tmp_path: Path) -> None:
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    converted(tiny_gguf.write(tmp_path / "m.gguf", "llama", extra=linear), tmp_path / "out")
    rope = transformers.AutoConfig.from_pretrained(tmp_path / "out").rope_parameters
    assert rope["rope_type"] == "linear" and rope["factor"] == 4.0
    path = tiny_gguf.write(tmp_path / "y.gguf", extra={"qwen2.rope.scaling.type": "yarn"})
    with pytest.raises(ModelUnsupported, match="`yarn`"):
        converted(path, tmp_path / "yarn")


# Bad files


def test_a_file_cut_anywhere_is_one_sentence(tmp_path: Path) -> None:
    data = tiny_gguf.write(tmp_path / "m.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [0, 3, 4, 10, 24, *range(25, len(data) - 1, len(data) // 60), len(data) - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(ModelCorrupt, match=r"cut\.gguf"):
            read_header(cut)


def test_damaged_bytes_in_the_header_never_end_in_a_traceback(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf")
    data = path.read_bytes()
    random = np.random.default_rng(1)
    outcomes = set()
    for n in range(150):
        damaged = bytearray(data)
        for at in random.integers(4, 1200 if n % 2 else 9000, 1 + n % 6):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        try:
            converted(path, tmp_path / f"out{n}")
            outcomes.add("read")
        except (ModelCorrupt, ModelUnsupported) as exc:
            outcomes.add(type(exc).__name__)
    assert "ModelCorrupt" in outcomes


def test_something_else_is_not_gguf(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ModelCorrupt, match="not a GGUF file"):
        read_header(path)


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"drop": ("blk.1.attn_k.weight",)}, ModelCorrupt, "`blk.1.attn_k.weight` is missing"),
        ({"nan": True}, ModelCorrupt, "`output_norm.weight` holds values that are no numbers"),
        ({"arch": "gemma3"}, ModelUnsupported, "architecture `gemma3`"),
        ({"pre": "chatglm"}, ModelUnsupported, "splits text as `chatglm`"),
        (
            {"extra": {"rope_freqs.weight": np.ones(8, np.float32)}},
            ModelUnsupported,
            "`rope_freqs.weight`",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_the_reason(
    tmp_path: Path, how: dict[str, Any], error: type[Exception], says: str
) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", **how)
    with pytest.raises(error) as caught:
        converted(path, tmp_path / "out")
    assert says in str(caught.value) and "m.gguf" in str(caught.value)
