"""A prompt says the text exactly, keeps its sentinels, fits, and changes only at its end."""

import time
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import NAMES, awkward, real

from completiond.config import Completion
from completiond.core import Snapshot
from completiond.prompt.anchor import taken_back
from completiond.prompt.builder import LARGE, Built, PromptBuilder
from completiond.prompt.templates import choose
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer
from completiond.protocol.messages import Chunk

LINES = st.lists(
    st.sampled_from(["x = 1", "", "    foo(a, b)", "\té😀", "<fim_middle>"]), max_size=30
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
FILE = "".join(f"def name_{i}(first, second):\n    return first + {i}\n\n\n" for i in range(2_000))


def at(text: str, cursor: int | None = None, *, path: str = "src/a.py") -> Snapshot:
    """The snapshot of `text` at `cursor`, or at the `|` in it."""
    if cursor is None:
        cursor, text = text.index("|"), text.replace("|", "", 1)
    return Snapshot.around(text, cursor, document="d", version=1, language="python", path=path)


def builder(
    tokenizer: AnyTokenizer,
    template: str = "",
    *,
    context: int = 4096,
    healing: bool | None = None,
    weights: int = 0,
    **settings: object,
) -> PromptBuilder:
    return PromptBuilder(
        tokenizer,
        choose(tokenizer, template),
        context=context,
        completion=Completion(**settings),  # type: ignore[arg-type]
        eos_ids=[7],
        healing=healing,
        weights=weights,
    )


def said(tokenizer: AnyTokenizer, built: Built, kind: str) -> str:
    parts = [s for s in built.prompt.segments if s.kind == kind]
    return "".join(tokenizer.decode(built.prompt.ids[s.start : s.end]) for s in parts)


def shown(tokenizer: ByteTokenizer, built: Built) -> str:
    """A prompt of the byte tokenizer, with its sentinels by name."""
    names = {tokenizer.token_id(name): name for name in ByteTokenizer.SPECIALS}
    raw = b"".join(
        names[i].encode() if i in names else tokenizer.token_bytes(i) for i in built.prompt.ids
    )
    return raw.decode()


def lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# What it says


def test_a_layout_that_nobody_chose_is_that_of_the_models_size() -> None:
    text = "".join(f"line {n}\n" for n in range(30)) + "    total = val"
    typed = {}
    for weights in (LARGE - 1, LARGE):
        for layout in ("auto", "long", "cursor"):
            build = builder(ByteTokenizer(), "none", layout=layout, weights=weights).build
            typed[weights, layout] = build(at(text, len(text)), max_tokens=8).typed.count("\n")
    assert typed[LARGE - 1, "auto"] == typed[LARGE, "long"] == typed[LARGE - 1, "long"] == 4
    assert typed[LARGE, "auto"] == typed[LARGE, "cursor"] == 0


@pytest.mark.parametrize("healing", [True, False])
@pytest.mark.parametrize("layout", ["line", "long", "suffix_first", "cursor"])
def test_healing_takes_back_the_same_word_in_every_layout_or_nothing(
    layout: str, healing: bool
) -> None:
    text = "".join(f"line {n}\n" for n in range(30)) + "    total = val"
    build = builder(ByteTokenizer(), "none", layout=layout, healing=healing).build
    built = build(at(text, len(text)), max_tokens=8)
    assert built.healed == built.stop["healed"] == (" val" if healing else "")
    assert built.prefix + built.typed + built.healed == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["line", "long", "suffix_first", "cursor"])
def test_the_parts_of_a_prompt_are_the_text(name: str, layout: str) -> None:
    tokenizer = real(name)
    build = builder(tokenizer, layout=layout).build

    @settings(max_examples=7, deadline=None)
    @given(LINES, ENDS, st.integers(0, 10**6))
    def law(lines: list[str], end: str, place: int) -> None:
        text = end.join(lines)
        cursor = place % (len(text) + 1)
        if text[cursor - 1 : cursor + 1] == "\r\n":
            cursor += 1
        built = build(at(text, cursor), max_tokens=64)
        prefix = said(tokenizer, built, "prefix")
        prefix = prefix.removeprefix(" ") if tokenizer.prepends_space else prefix
        assert prefix + said(tokenizer, built, "typed") + built.healed == lf(text[:cursor])
        assert said(tokenizer, built, "typed") == built.typed
        if choose(tokenizer):
            assert said(tokenizer, built, "suffix") == lf(text[cursor:])

    law()


@pytest.mark.parametrize("name", NAMES)
def test_sentinels_in_a_file_are_not_the_prompts_own(name: str) -> None:
    tokenizer = real(name)
    text = awkward("fim_tokens_in_source.py")
    built = builder(tokenizer).build(at(text, len(text) // 2), max_tokens=64)
    control = [i for i in built.prompt.ids if i in tokenizer.control]
    template = choose(tokenizer)
    bos = [tokenizer.bos_id] if tokenizer.bos_id is not None else []
    sentinels = [tokenizer.token_id(token) for token in template.sentinels] if template else []
    assert control == bos + ([sentinels[0], sentinels[1], sentinels[2]] if template else [])


def test_the_order_of_each_layout() -> None:
    tokenizer, snapshot = ByteTokenizer(), at("a\nb = fo|o\nc")
    line = builder(tokenizer).build(snapshot, max_tokens=8)
    assert shown(tokenizer, line) == "<fim_prefix>a\n<fim_suffix>o\nc<fim_middle>b ="
    assert line.healed == line.prompt.healed == " fo"
    cursor = builder(tokenizer, layout="cursor").build(snapshot, max_tokens=8)
    assert shown(tokenizer, cursor) == "<fim_prefix>a\nb = fo<fim_suffix>o\nc<fim_middle>"
    assert cursor.healed == "" and cursor.max_tokens == 8
    first = builder(tokenizer, layout="suffix_first").build(snapshot, max_tokens=8)
    assert shown(tokenizer, first) == "<fim_prefix><fim_suffix>o\nc<fim_middle>a\nb ="
    alone = builder(tokenizer, "none").build(snapshot, max_tokens=8)
    assert shown(tokenizer, alone) == "a\nb =" and alone.healed == " fo"


def test_codellama_gets_its_bos_and_its_exact_blanks() -> None:
    tokenizer = real("codellama")
    built = builder(tokenizer).build(at("x\ny| z\n"), max_tokens=8)
    ids = [tokenizer.token_id(name) for name in ("<s>", "▁<PRE>", "▁<SUF>", "▁<MID>")]
    bos, pre, suf, mid = ids
    expected = [bos, pre, *tokenizer.encode(" x\n"), suf, *tokenizer.encode(" z\n"), mid]
    assert list(built.prompt.ids) == expected


@pytest.mark.parametrize("name", ["codellama", "qwen", "starcoder"])
def test_a_crlf_file_has_the_ids_of_the_lf_file(name: str) -> None:
    build = builder(real(name)).build
    text = "def f():\n    x = |\n\n    return x\n"
    assert build(at(text), max_tokens=8) == build(at(text.replace("\n", "\r\n")), max_tokens=8)


def test_a_cursor_between_cr_and_lf_is_at_the_end_of_its_line() -> None:
    tokenizer = ByteTokenizer()
    built = builder(tokenizer).build(at("a\r\nb\r|\nc"), max_tokens=8)
    assert shown(tokenizer, built) == "<fim_prefix>a\n<fim_suffix>\nc<fim_middle>"
    assert built.healed == "b"


def test_lone_surrogates_reach_neither_ids_nor_wire() -> None:
    built = builder(ByteTokenizer()).build(at("a\ud83d|\ude00\nb"), max_tokens=8)
    assert msgpack.packb([built.prompt.ids, built.healed, built.stop])


# What is taken back


@pytest.mark.parametrize(
    ("typed", "healed"),
    [
        ("throw new numberFormatExce", " numberFormatExce"),
        ("for i < ", " "),
        ("a \t", " \t"),
        ("    ret", " ret"),
        ("    ", " "),
        ("\t\t", "\t"),
        ("impor", "impor"),
        ("foo(", "("),
        ("foo($bar", "($bar"),
        ("parts.spl", ".spl"),
        ("loop-", "-"),
        ("x = [", " ["),
        ("x = e\u0301t", " e\u0301t"),
        ("é😀", "😀"),
        ("", ""),
    ],
)
def test_the_unfinished_word_its_signs_and_its_blanks_are_taken_back(
    typed: str, healed: str
) -> None:
    assert taken_back(typed) == healed


@pytest.mark.parametrize("name", ["qwen", "starcoder"])
@pytest.mark.parametrize(
    "whole", ["parts.split()", "a = loop->next;", "x = [(1, 2)]", "if a != b:"]
)
def test_wherever_a_line_is_cut_what_is_kept_ends_with_one_of_its_tokens(
    whole: str, name: str
) -> None:
    tokenizer = real(name)
    ids = tokenizer.encode(whole)
    ends = {len(tokenizer.decode(ids[:n])) for n in range(len(ids) + 1)}
    for cursor in range(len(whole)):
        typed = whole[:cursor]
        assert len(typed) - len(taken_back(typed)) in ends


def test_the_cut_in_a_very_long_word_stays_while_it_is_typed() -> None:
    cuts = {n: n - len(taken_back("x." + "w" * n)) for n in range(1, 300)}
    assert len(set(cuts.values())) <= 300 // 32
    assert all(len(taken_back("w" * n)) < 64 for n in range(300))


def test_nothing_is_taken_back_at_the_cursor_split() -> None:
    assert builder(ByteTokenizer(), layout="cursor").build(at("foo|"), max_tokens=8).healed == ""


# What fits


@pytest.mark.parametrize("name", ["starcoder", "llama-spm", "qwen"])
def test_a_prompt_and_its_answer_fit_into_the_context(name: str) -> None:
    tokenizer = real(name)
    chunks = [Chunk(str(i), f"other/{i}.py", "python", FILE[: i * 900]) for i in range(12)]
    for context in (64, 100, 512, 2048, 4096):
        build = builder(tokenizer, context=context).build
        for cursor in (0, 500, 40_000, len(FILE)):
            for max_tokens in (1, 64, 100_000):
                built = build(at(FILE, cursor), chunks, max_tokens=max_tokens)
                assert len(built.prompt.ids) + built.max_tokens <= context
                assert built.max_tokens >= 1


def test_an_answer_as_long_as_the_context_leaves_a_prompt() -> None:
    built = builder(ByteTokenizer(), context=256).build(at(FILE, 9_000), max_tokens=4_096)
    assert built.max_tokens <= 140 and len(built.prompt.ids) > 40


def test_the_sentinels_are_there_however_much_is_cut() -> None:
    tokenizer = ByteTokenizer()
    for cursor in (0, 50_000, len(FILE)):
        built = builder(tokenizer, context=64).build(at(FILE, cursor), max_tokens=32)
        text = shown(tokenizer, built)
        assert text.startswith("<fim_prefix>")
        assert text.index("<fim_suffix>") < text.index("<fim_middle>")


def test_long_text_is_cut_at_line_starts_near_the_budgets() -> None:
    tokenizer = real("starcoder")
    built = builder(tokenizer, layout="suffix_first").build(at(FILE, 50_000), max_tokens=64)
    prefix, suffix = (said(tokenizer, built, kind) for kind in ("prefix", "suffix"))
    before, after = FILE[:50_000], FILE[50_000:]
    assert before.endswith(prefix + said(tokenizer, built, "typed") + built.healed)
    assert before[-len(prefix + built.typed + built.healed) - 1] == "\n"
    assert after.startswith(suffix) and suffix.endswith("\n")
    lengths = {s.kind: s.end - s.start for s in built.prompt.segments}
    assert 1_000 <= lengths["prefix"] <= 1_536 and 400 <= lengths["suffix"] <= 512


@pytest.mark.parametrize("file", ["minified.js", "long_identifier.js", "only_newlines.go"])
def test_awkward_files_are_cut_without_loss_at_the_cursor(file: str) -> None:
    tokenizer, text = real("starcoder"), awkward(file)
    for cursor in {0, len(text) // 2, len(text)}:
        built = builder(tokenizer).build(at(text, cursor), max_tokens=64)
        before = said(tokenizer, built, "prefix") + built.typed + built.healed
        assert lf(text[:cursor]).endswith(before) and len(before) >= min(cursor, 500)
        assert "\ufffd" not in said(tokenizer, built, "suffix")


def test_a_cut_never_leaves_half_a_character() -> None:
    tokenizer, text = ByteTokenizer(), "😀é" * 4_000
    for cursor in range(3_990, 4_010):
        built = builder(tokenizer, context=700).build(at(text, cursor), max_tokens=8)
        for kind in ("prefix", "suffix"):
            assert "\ufffd" not in said(tokenizer, built, kind)


# What stays from key to key


@pytest.mark.parametrize("name", ["qwen", "starcoder"])
def test_a_key_changes_only_the_end_of_the_prompt(name: str) -> None:
    tokenizer = real(name)
    build = builder(tokenizer).build
    fresh = fresh_tokens(build, "    value = numberFormat(first, second) + other_thing")
    assert max(fresh) <= 4


@pytest.mark.parametrize("layout", ["line", "long", "suffix_first", "cursor"])
def test_the_left_edge_stays_for_most_keys(layout: str) -> None:
    tokenizer = real("starcoder")
    build = builder(tokenizer, layout=layout).build
    starts = set()
    for keys in range(0, 3_000, 30):
        text = FILE[:60_000] + ("value = 1\n" * 300)[:keys]
        built = build(at(text, len(text)), max_tokens=64)
        prefix = said(tokenizer, built, "prefix")
        starts.add(len(text) - len(prefix + built.typed + built.healed))
    assert len(starts) <= 3_000 // 300  # a step of 256 tokens each, of 1,500 that are typed


def fresh_tokens(build: Callable[..., Built], typed: str) -> list[int]:
    """How many ids each key of `typed` adds behind what the prompt before has in common."""
    held: tuple[int, ...] = ()
    fresh = []
    for keys in range(len(typed) + 1):
        text = FILE[:50_000].rpartition("\n")[0] + "\n" + typed[:keys]
        ids = build(at(text + FILE[50_000:], len(text)), max_tokens=64).prompt.ids
        same = next((i for i, (a, b) in enumerate(zip(held, ids, strict=False)) if a != b), None)
        fresh.append(len(ids) - (min(len(held), len(ids)) if same is None else same))
        held = ids
    return fresh[1:]


@pytest.mark.slow  # it measures: not beside others
def test_a_key_costs_little_when_prefix_and_suffix_are_unchanged() -> None:
    build = builder(real("qwen")).build
    spent = []
    for keys in range(40):
        text = (
            FILE[:50_000].rpartition("\n")[0] + "\n" + "value = first.second(third, fourth)"[:keys]
        )
        snapshot = at(text + FILE[50_000:], len(text))
        start = time.perf_counter()
        build(snapshot, max_tokens=64)
        spent.append(time.perf_counter() - start)
    assert sorted(spent[1:])[len(spent) // 2] < 0.002  # measured: 0.11 ms


# Context from other files


CHUNKS = [Chunk("1", "/abs/b.py", "python", "b = 1\r\n"), Chunk("2", "lib/c.py", "python", "c = 2")]


def test_chunks_come_first_in_the_familys_own_format() -> None:
    tokenizer = ByteTokenizer()
    built = builder(tokenizer).build(at("a|\n"), CHUNKS, max_tokens=8)
    assert shown(tokenizer, built) == (
        "<file_sep>b.py\nb = 1\n<file_sep>lib/c.py\nc = 2\n<file_sep>"
        "<fim_prefix>src/a.py\n<fim_suffix>\n<fim_middle>"
    )
    assert said(tokenizer, built, "context") == "b.py\nb = 1\nlib/c.py\nc = 2\nsrc/a.py\n"


def test_a_family_without_file_tokens_gets_comments() -> None:
    tokenizer = ByteTokenizer(("<fim_prefix>", "<fim_suffix>", "<fim_middle>"))
    built = builder(tokenizer).build(at("a|\n"), CHUNKS, max_tokens=8)
    assert tokenizer.decode(built.prompt.ids) == "# b.py\nb = 1\n# lib/c.py\nc = 2\n# src/a.py\n\n"
    assert built.prompt.ids[0] == 256


def test_chunks_that_do_not_fit_are_left_out_and_the_order_is_kept() -> None:
    tokenizer = ByteTokenizer()
    big = Chunk("3", "big.py", "python", FILE)
    build = builder(tokenizer, context=1_000, prefix_tokens=100, suffix_tokens=50).build
    built = build(at("a|\n"), [CHUNKS[0], big, CHUNKS[1]], max_tokens=8)
    context = said(tokenizer, built, "context")
    assert context.startswith("b.py\nb = 1\nbig.py\ndef name_0")
    assert len(built.prompt.ids) + built.max_tokens <= 1_000


def test_typing_leaves_the_chunks_in_place() -> None:
    build = builder(ByteTokenizer()).build
    one, two = (build(at(f"{text}|\n"), CHUNKS, max_tokens=8) for text in ("a =", "a = 1 +"))
    start = next(s.start for s in one.prompt.segments if s.kind == "suffix")
    assert one.prompt.ids[:start] == two.prompt.ids[:start]


# What ends it


def test_stop_ids_are_the_templates_and_the_models_own() -> None:
    tokenizer = ByteTokenizer()
    template = choose(tokenizer)
    built = builder(tokenizer).build(at("a|"), max_tokens=8)
    assert template and set(built.stop["stop_ids"]) == {7, *template.stop_ids(tokenizer)}


def test_the_stop_rule_knows_the_line_of_the_cursor() -> None:
    built = builder(ByteTokenizer()).build(at("x\r\n  foo|(bar\r\n\r\n  next\r\n"), max_tokens=8)
    facts = {key: built.stop[key] for key in ("single", "line", "rest", "next", "healed")}
    assert facts == {
        "single": True,
        "line": "  foo",
        "rest": "(bar",
        "next": "  next",
        "healed": " foo",
    }


def test_the_answer_has_room_for_the_healed_part() -> None:
    assert builder(ByteTokenizer()).build(at("x = foo|"), max_tokens=8).max_tokens == 8 + 4


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_closers_of_what_was_typed_stand_in_no_prompt_and_end_the_answer(end: str) -> None:
    build = builder(ByteTokenizer()).build
    plain = build(at(f"a{end}x = f(|{end}b{end}"), max_tokens=8)
    for closers in (")", f"{end}}})"):
        paired = build(at(f"a{end}x = f(|{closers}{end}b{end}"), max_tokens=8, closers=closers)
        assert paired.prompt == plain.prompt
        closing = {"closer": closers.strip()[0], "writes_closer": closers == ")"}
        assert paired.stop == plain.stop | closing


def test_the_anchor_is_found_again_when_the_windows_edge_has_moved() -> None:
    tokenizer, cursor = ByteTokenizer(), 6 * 4096 - 1
    build = builder(tokenizer).build
    first = build(at(FILE, cursor), max_tokens=8)
    for typed in ("+ a", "+ a\n\n    b = 1\n    c"):
        text = FILE[:cursor] + typed + FILE[cursor:]
        snapshot = at(text, cursor + len(typed))
        there = build(snapshot, max_tokens=8, kept=first.kept)
        assert there.prefix[-2_000:] == first.prefix[-2_000:]
        assert (there.typed + there.healed) == (first.typed + first.healed) + typed
        back = build(at(FILE, cursor), max_tokens=8, kept=there.kept)
        assert back.prefix == first.prefix
