"""Laws of scripts/eval.py: what is scored, how sides are compared, what tests may do."""

import json
import socket
from pathlib import Path
from typing import Any

import eval as evaluation
import eval_score as score
import eval_tests
import pytest
from eval_answers import WITHOUT, answer, shown_tokens
from eval_context import MOST, SOURCES, given
from eval_gather import Places, gather
from eval_names import names_found
from eval_report import Judge, Report, table
from eval_sides import LAYOUTS, Setting
from infill_items import Item, read_items, sample
from row_file import RowFile

from completiond.config import Completion
from completiond.prompt.builder import PromptBuilder
from completiond.prompt.tokenizer import ByteTokenizer

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[3] / "shared/data"
INFILL = DATA / "infill"
ASKED = {"exact", "edit_sim", "pass", "shown", "by_language", "by_layout", "peers"}


def hole(kind: str = "line-rest", middle: str = "1", **fields: Any) -> Item:
    named = {"id": "1", "language": "python", "prefix": "x = ", "suffix": "\n"} | fields
    more = named.pop("more", {})
    texts = (named[name] for name in ("id", "language", "prefix", "suffix"))
    ident, language, prefix, suffix = texts
    return Item("set", ident, kind, language, prefix, suffix, middle, more)


# -- scores ---------------------------------------------------------------------------------------


def test_a_setting_has_a_name_of_its_own() -> None:
    both = (False, True)
    kinds = [Setting("ours", "long", free=a, invoked=b) for a in both for b in both]
    assert len({kind.name for kind in kinds}) == 4


@pytest.mark.skipif(not INFILL.is_dir(), reason=f"{INFILL} is not there")
def test_no_cut_takes_anything_from_what_was_there() -> None:
    items = read_items(INFILL)
    spoiled = [item.key for item in items if not score.exact(score.cut(item.middle, item), item)]
    assert spoiled == []


def test_of_a_line_the_rest_of_the_answer_does_not_count() -> None:
    assert score.cut("1\ny = 2", hole()) == "1"
    assert score.cut("\n    y = 2\nz", hole("single-line", prefix="def f():\n")) == "    y = 2"


def test_in_mid_line_an_answer_that_begins_with_a_line_end_is_empty() -> None:
    assert score.cut("\ny = 2", hole()) == ""


def test_a_block_ends_where_the_buffer_goes_on_and_not_at_a_closer_of_its_own() -> None:
    tests = {"tests": "check()"}
    item = hole("multi-line", prefix="if a:\n", suffix="    }\n}\nlast\n", more=tests)
    own = "    if b {\n    }\n    c"
    assert score.cut(f"{own}\n    }}\n}}\nlast", item) == own


def test_a_block_at_the_end_of_a_file_ends_with_its_indentation() -> None:
    item = hole("body", prefix="def f():\n", suffix="", more={"tests": "check()"})
    assert score.cut("    return 1\n\nprint(f())", item) == "    return 1"


def test_where_no_test_judges_it_a_block_is_as_long_as_what_was_there() -> None:
    assert score.cut("a\nb\nc", hole("multi-line", "a\nx")) == "a\nb"


def test_a_span_ends_where_the_rest_of_the_line_begins() -> None:
    item = hole("random-span", suffix=" for i in range(n)]\n")
    assert score.cut("2 * i for i in range(n)]", item).strip() == "2 * i"


def test_white_space_around_an_answer_does_not_count_and_inside_it_does() -> None:
    assert score.exact(" 1 ", hole())
    assert not score.exact("1  + 1", hole(middle="1 + 1"))


@pytest.mark.parametrize(("one", "other", "distance"), [("kitten", "sitting", 3), ("", "ab", 2)])
def test_edits_are_counted_alike_both_ways(one: str, other: str, distance: int) -> None:
    assert score.edits(one, other) == score.edits(other, one) == distance
    assert score.edits(one, one) == 0


def test_similarity_is_one_for_the_same_and_nothing_for_nothing_in_common() -> None:
    assert score.similarity("1", hole()) == 1.0
    assert score.similarity("abc", hole(middle="xyz")) == 0.0


def test_items_of_one_file_count_as_one_draw() -> None:
    values = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    apart = score.bootstrap(values, list("abcdef"))
    together = score.bootstrap(values, list("aaabbb"))
    assert together[1] - together[0] > apart[1] - apart[0]
    assert score.bootstrap(values, ["a"] * 6) == []


def test_a_difference_that_is_the_same_everywhere_is_sure() -> None:
    found = score.paired([1.0] * 8, [0.0] * 8, list("abcdefgh"))
    assert found["interval"] == [1.0, 1.0]
    assert (found["only_first"], found["only_second"]) == (8, 0)


# -- samples, files, chunks -----------------------------------------------------------------------


def test_a_sample_has_each_language_by_its_share_and_begins_every_longer_one() -> None:
    items = [hole(id=str(i), language="c" if i % 4 else "go") for i in range(40)]
    drawn = sample(items, 12)
    assert sum(item.language == "go" for item in drawn) == 3
    assert sample(items, 20)[:12] == drawn == sample(items, 12)
    assert len(sample(items, 0)) == 40


def test_a_file_of_rows_drops_the_line_that_was_cut_off_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    RowFile(path, ("item",)).add({"item": "a", "n": 1})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"item": "b"')
    again = RowFile(path, ("item",))
    again.add({"item": "c", "n": 3})
    assert list(RowFile(path, ("item",)).rows) == [("a",), ("c",)]


@pytest.mark.skipif(not INFILL.is_dir(), reason=f"{INFILL} is not there")
@pytest.mark.parametrize("name", ["commit_points_dev", "crosscodeeval_python_tabby100"])
def test_chunks_are_of_other_files_and_few(name: str) -> None:
    for item in read_items(INFILL, [name])[:10]:
        chunks = given(item, Places(DATA))
        assert 0 < len(chunks) <= MOST
        assert all(chunk.text and chunk.path != item.path for chunk in chunks)


@pytest.mark.skipif(not INFILL.is_dir(), reason=f"{INFILL} is not there")
def test_our_own_retrieval_finds_the_same_twice_in_the_traces_other_files_and_its_own() -> None:
    for item in read_items(INFILL, ["commit_points_dev"])[::9]:
        trace = json.loads((DATA / item.more["trace"]).read_text(encoding="utf-8"))
        assert item.path == trace["path"]
        open_files = {one["path"] for one in trace["other_open_files"]}
        found = gather(item, Places(DATA))
        assert {chunk.path for chunk in found} <= {*open_files, item.path}
        assert all(chunk.text not in item.prefix + item.suffix for chunk in found)
        assert gather(item, Places(DATA)) == found


def test_a_repository_is_read_where_it_lies_and_one_that_is_missing_is_named(
    tmp_path: Path,
) -> None:
    more = {"repository": "one", "path": "main.py", "cross_file": []}
    text = "from cart import Cart\n\ncart = Cart()\ncart."
    item = hole(prefix=text, middle="add(1)", more=more)
    assert gather(item, Places(DATA)) == ()
    with pytest.raises(SystemExit, match="one is not there"):
        gather(item, Places(DATA, tmp_path))
    (tmp_path / "one").mkdir()
    (tmp_path / "one/cart.py").write_text("class Cart:\n    def add(self, item):\n        pass\n")
    (chunk,) = gather(item, Places(DATA, tmp_path))
    assert chunk.path == "cart.py" and "def add" in chunk.text
    for name in ("gather-similar", "early"):
        assert SOURCES[name](item, Places(DATA, tmp_path)) == [chunk]


def test_a_name_counts_that_the_chunks_hold_and_the_text_near_the_hole_does_not() -> None:
    chunk = {"path": "cart.py", "text": "def add_item(self, amount): pass"}
    items = [
        hole(prefix="amount = 1\ncart.", middle="add_item(amount)\n", more={"cross_file": [chunk]}),
        hole(prefix="cart.", middle="total_price(currency)\n", more={"cross_file": [chunk]}),
    ]
    (found,) = names_found(items, ["given"], Places(DATA))
    assert (found.names, found.found, found.tokens) == (3, 1, len(chunk["text"]) / 3.2)
    (none,) = names_found(items, ["none"], Places(DATA))
    assert (none.names, none.found, none.tokens) == (3, 0, 0)


# -- answers --------------------------------------------------------------------------------------


def row(item: Item, text: str, reason: str = "eos") -> dict[str, Any]:
    completion = Completion()
    builder = PromptBuilder(ByteTokenizer(), None, context=4096, completion=completion, eos_ids=())
    stop = builder.build(item.snapshot(), max_tokens=64).stop
    return {"text": stop["healed"] + text, "reason": reason, "stop": stop, "decoded": 10}


def test_a_free_run_gives_the_answer_of_the_run_that_the_rules_end() -> None:
    item = hole(prefix="def f(a):\n    ", suffix="\n\ndef g():\n")
    free = row(item, "b = a\n    return b\n\ndef h():\n    pass")
    ended = row(item, "b = a\n    return b\n\n", "paragraph")
    assert answer(free, item) == answer(ended, item) == "b = a\n    return b"
    assert answer(free, item, WITHOUT["both"]).endswith("pass")


def test_each_rule_can_be_left_out_and_the_others_stay() -> None:
    item = hole(prefix="def f(a):\n    ", suffix="\n\ndef g():\n")
    said = row(item, "b = a\n    return b\n\ndef h():\n    pass")
    assert "def h" in answer(
        said, item, WITHOUT["stop: paragraph"]._replace(stops=frozenset({"paragraph", "dedent"}))
    )
    assert answer(said, item, WITHOUT["cleaning: echo"]) == answer(said, item)


def test_an_answer_that_does_not_spell_the_healed_word_shows_nothing() -> None:
    item = hole(prefix="x = val")
    spoiled = row(item, "") | {"text": "other"}
    assert answer(spoiled, item) == answer(spoiled, item, WITHOUT["both"]) == ""
    assert shown_tokens(spoiled, "", len) == 0


def test_the_healed_word_counts_as_shown_where_anything_is() -> None:
    item = hole(prefix="x = val", suffix="\n")
    assert shown_tokens(row(item, "ue"), "ue", len) == len(" value")


# -- reports --------------------------------------------------------------------------------------

MAIN, FREE = Setting("ours", "long+healing"), Setting("ours", "long+healing", free=True)
PEER = Setting("llama", "")


def judged(tmp_path: Path) -> Report:
    items = [hole(id="a"), hole(id="b", language="go"), hole(id="c")]
    rows = RowFile(tmp_path / "rows.jsonl", ("model", "setting", "item"))
    said = {MAIN: ("1", "1", "2"), FREE: ("1\n\ny", "1", "2"), PEER: ("1", "3", "1")}
    for setting, texts in said.items():
        for item, text in zip(items, texts, strict=True):
            made = row(item, text) if setting.side == "ours" else {"text": text, "decoded": 1}
            rows.add({"model": "m", "setting": setting.name, "item": item.key} | made)
    return Report("m", MAIN, list(said), Judge(items, rows, None))


def test_the_last_line_says_what_was_asked_for_and_both_sides(tmp_path: Path) -> None:
    result = judged(tmp_path).result(len)
    assert result.keys() >= ASKED
    assert json.loads(json.dumps(result)) == result
    assert result["exact"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["by_language"]["go"] == {"items": 1, "exact": 1.0, "edit_sim": 1.0, "right": 1.0}
    above = result["peers"]["llama"]["none"]["we_are_above"]["exact"]
    assert (above["only_first"], above["only_second"], above["difference"]) == (1, 1, 0.0)


def test_a_rule_is_charged_with_the_answers_that_it_changes(tmp_path: Path) -> None:
    rules = judged(tmp_path).result(len)["rules"]
    assert rules["stop rules"]["adds"]["exact"]["only_second"] == 0
    assert rules["cleaning"]["changed"] == 0


def test_the_table_has_a_row_for_each_setting_and_the_losses_their_texts(tmp_path: Path) -> None:
    report = judged(tmp_path)
    assert any(line.startswith("| llama, none") for line in table(report.result(len)))
    (loss,) = report.losses()
    assert "set/c" in loss and "'2'" in loss and "'1'" in loss


def test_every_setting_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["eval.py", "--layouts", "--rules", "--context", "none,given"]
    monkeypatch.setattr("sys.argv", [*words, "--llama-bin", "bin", "--gguf", "model.gguf"])
    settings = evaluation.plan(evaluation.parse())
    assert len({setting.name for setting in settings}) == len(settings)
    assert settings[0] == evaluation.product("qwen2.5-coder-0.5b")
    assert {s.layout for s in settings if s.side == "ours"} == set(LAYOUTS)


def test_some_layouts_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["eval.py", "--layouts", "line+healing,cursor"])
    settings = evaluation.plan(evaluation.parse())
    assert [s.layout for s in settings[1:]] == ["line+healing", "cursor"]


@pytest.mark.parametrize(("flag", "wrong"), [("--context", "gven"), ("--layouts", "lin")])
def test_an_unknown_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str, wrong: str
) -> None:
    monkeypatch.setattr("sys.argv", ["eval.py", flag, wrong])
    with pytest.raises(SystemExit):
        evaluation.parse()
    assert repr(wrong) in capsys.readouterr().err


# -- tests of items -------------------------------------------------------------------------------

needs_quarantine = pytest.mark.skipif(
    not eval_tests.alone(), reason="no process can be without a network here"
)
TESTED = hole(
    "body",
    "    return a + b\n",
    prefix="def add(a, b):\n",
    suffix="",
    more={"tests": "assert add(1, 2) == 3\n"},
)


@needs_quarantine
def test_what_was_there_passes_and_a_wrong_answer_does_not() -> None:
    assert eval_tests.can_test(TESTED)
    assert eval_tests.passes(TESTED, TESTED.middle)
    assert not eval_tests.passes(TESTED, "    return a - b")


@needs_quarantine
@pytest.mark.parametrize(
    "deed",
    [
        "    while True: pass",
        "    return len(bytearray(8 << 30)) and a + b",
        "    import socket; socket.create_connection(('127.0.0.1', PORT)); return a + b",
        "    open('much', 'wb').write(bytes(64 << 20)); return a + b",
    ],
)
def test_an_answer_that_takes_too_much_fails(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_tests, "RUN_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert not eval_tests.passes(TESTED, deed.replace("PORT", str(port)))


@needs_quarantine
def test_a_whole_program_is_compared_with_its_outputs_line_by_line() -> None:
    cases = {"io_tests": [{"input": "2\n", "output": ["4\n"]}]}
    item = hole("safim-control", "* 2", prefix="print(int(input()) ", suffix=")\n", more=cases)
    assert eval_tests.passes(item, "* 2")
    assert not eval_tests.passes(item, "* 3")


@needs_quarantine
def test_a_verdict_is_kept_and_an_answer_is_right_by_its_tests_not_its_letters(
    tmp_path: Path,
) -> None:
    rows = RowFile(tmp_path / "rows.jsonl", ("model", "setting", "item"))
    rows.add({"model": "m", "setting": PEER.name, "item": TESTED.key, "text": "    return b + a"})
    path = tmp_path / "tests.jsonl"
    for _ in range(2):
        verdicts = RowFile(path, ("item", "text"))
        scores = Judge([TESTED], rows, verdicts).scores("m", PEER)
        assert (scores.exact, scores.passed, scores.right) == ([0.0], [1.0], [1.0])
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_a_language_without_its_tools_has_no_verdict() -> None:
    assert not eval_tests.can_test(TESTED._replace(language="haskell"))
    assert not eval_tests.can_test(hole())
