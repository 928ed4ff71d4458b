"""What is gathered at a cursor: definitions, places, windows; nothing twice, within a budget."""

import random

import pytest

from completiond_lsp.retrieval.gather import Gatherer, Material, gather, tokens_of
from completiond_lsp.retrieval.recent import MAX_YANK, Past, Place, Recent
from completiond_lsp.retrieval.sources import Piece, Question, Source
from completiond_lsp.retrieval.stable import renewed

CART = '''"""A cart."""

import money


class Cart:
    """What is bought."""

    limit: int = 20

    def add_item(self, item: str, amount: int) -> None:
        """Put it in."""
        self.items[item] = amount

    def total_price(self, currency: str) -> float:
        return sum(self.items.values())


def empty_cart() -> Cart:
    return Cart()
'''
CART_TS = """import { Money } from "./money";

export class Cart {
  limit = 20;

  addItem(item: string, amount: number): void {
    this.items[item] = amount;
  }
}
"""


class Disk:
    """Files by path."""

    def __init__(self, *sources: Source) -> None:
        self._sources = {source.path: source for source in sources}

    def named(self, stem: str) -> list[str]:
        return [p for p in self._sources if p.rpartition("/")[2].split(".")[0] == stem]

    def source(self, path: str) -> Source | None:
        return self._sources.get(path)


def asked(text: str, path: str = "app/main.py", language: str = "python") -> Question:
    """The cursor is at `|`."""
    before = text[: text.index("|")]
    return Question(path, language, text.replace("|", ""), before.count("\n"))


@pytest.mark.parametrize(
    ("question", "file"),
    [
        (
            asked("from app.cart import Cart\n\n\ndef buy():\n    cart = Cart()\n    cart.|\n"),
            Source("src/app/cart.py", "python", CART),
        ),
        (
            asked("from .cart import Cart\n\ncart = Cart(|\n"),
            Source("app/cart.py", "python", CART),
        ),
        (
            asked("import { Cart } from './cart';\n\nnew Cart(|\n", "app/main.ts", "typescript"),
            Source("app/cart.ts", "typescript", CART_TS),
        ),
    ],
)
def test_the_definition_of_an_imported_name_is_quoted(question: Question, file: Source) -> None:
    chunks = gather(question, Material(files=Disk(file)))
    assert any("class Cart" in chunk.text and chunk.path == file.path for chunk in chunks)


def test_an_open_buffer_is_quoted_as_it_is_now_and_not_as_its_file() -> None:
    question = asked("from app.cart import Cart\n\ncart = Cart(|\n")
    now = Source("app/cart.py", "python", CART.replace("add_item", "put_item"))
    old = Source("app/cart.py", "python", CART)
    text = "".join(c.text for c in gather(question, Material([now], Disk(old))))
    assert "put_item" in text and "add_item" not in text


def test_another_language_is_not_quoted_and_an_unknown_one_only_by_its_own() -> None:
    question = asked("gadget frob_handle(|\n", "a.zork", "zork")
    other = Source("b.py", "python", "def frob_handle(gadget):\n    return gadget\n" * 3)
    assert gather(question, Material([other])) == []
    kin = Source("b.zork", "zork", "gadget frob_handle(lever, knob)\n  turn knob\n" * 2)
    assert [c.path for c in gather(question, Material([kin]))] == ["b.zork"]


def test_edited_places_come_before_similar_windows_and_yanks_between() -> None:
    lines = [f"value_{i} = compute_{i}(left_{i}, right_{i})" for i in range(60)]
    other = Source("b.py", "python", "\n".join(lines) + "\n")
    question = asked("value_50 = compute_50(left_50, |\n")
    yank = Source("c.py", "python", "copied_line = something_new()")
    past = Past((Place("b.py", 10),), (), (yank,))
    kinds = [p.kind for p in Gatherer().pieces(question, Material([other], past=past))]
    order = ["definition", "changed", "yanked", "similar", "visited"]
    assert kinds == sorted(kinds, key=order.index)
    assert {"changed", "yanked", "similar"} <= set(kinds)


def test_nothing_is_said_twice_and_nothing_that_the_window_says() -> None:
    text = "\n".join(f"alpha_{i} = beta_{i}(gamma_{i})" for i in range(12)) + "\n"
    copy = text.replace("gamma_3", "gamma_x")
    sources = [Source(f"{name}.py", "python", copy) for name in "bcd"]
    question = asked("alpha_1 = beta_1(|\n")
    assert len(gather(question, Material(sources))) == 1
    repeated = asked(text[:-1] + "|\n", "main.py")
    assert gather(repeated, Material(sources)) == []


def test_no_line_is_quoted_twice_and_the_budget_holds() -> None:
    chance = random.Random(3)
    names = [f"name_{i}" for i in range(40)]
    for tokens in (0, 50, 300, 2_000):
        sources = []
        for number in range(30):
            body = [
                f"    return {chance.choice(names)}(\n    {chance.choice(names)})" for _ in "ab"
            ]
            made = [f"def {chance.choice(names)}(x):\n{body[0]}\n{body[1]}\n" for _ in range(20)]
            sources.append(Source(f"{number}.py", "python", "\n".join(made)))
        past = Past(tuple(Place(f"{i}.py", 5) for i in range(9)), (Place("3.py", 40),))
        question = asked("\n".join(names[:12]) + "|")
        pieces = Gatherer().pieces(question, Material(sources, past=past), tokens=tokens)
        assert sum(map(tokens_of, pieces)) <= tokens
        for i, piece in enumerate(pieces):
            assert not any(piece.overlaps(other) for other in pieces[:i])


def test_a_deadline_that_is_over_ends_the_search_with_what_there_is() -> None:
    sources = [Source(f"{i}.py", "python", CART) for i in range(30)]
    question = asked("from app.cart import Cart\ncart = Cart(|\n")
    assert len(Gatherer().pieces(question, Material(sources), within_s=0.0)) <= 1


def test_the_same_question_has_the_same_answer_with_and_without_memory() -> None:
    gatherer = Gatherer()
    question = asked("from app.cart import Cart\n\ncart = Cart(|\n")
    sources = [Source("app/cart.py", "python", CART), Source("b.py", "python", CART * 3)]
    first = gatherer.pieces(question, Material(sources))
    assert first == gatherer.pieces(question, Material(sources))
    assert first == Gatherer().pieces(question, Material(sources)) and first


def test_far_definitions_of_the_text_itself_are_quoted_and_near_ones_not() -> None:
    far = "def far_away(first, second):\n    return first\n\n" + "# filler\n" * 1_000
    near = "def close_by(third):\n    return third\n\n"
    question = asked(far + near + "far_away(close_by(|\n")
    assert [chunk.text for chunk in gather(question, Material())] == [far[: far.index("\n\n")]]


# -- the list that is held -----------------------------------------------------------------------


def piece(name: str, lines: int = 10, first: int = 0) -> Piece:
    text = "\n".join(f"{name}_{i} = {name}{i}" for i in range(lines))
    return Piece("similar", f"{name}.py", "python", first, first + lines, text)


def test_what_is_held_keeps_its_place_and_what_is_new_comes_behind() -> None:
    held, fresh = [piece("a"), piece("b")], [piece("c"), piece("b")]
    assert renewed(held, fresh, 10_000) == [piece("a"), piece("b"), piece("c")]
    assert renewed(held, [], 10_000) == held


def test_at_an_overflow_half_goes_and_the_rest_keeps_its_order() -> None:
    held = [piece(name) for name in "abcdef"]
    room = int(sum(map(tokens_of, held))) + 1
    found = renewed(held, [piece("g"), piece("d"), piece("b")], room)
    assert found == [piece("b"), piece("d"), piece("g")]
    assert sum(map(tokens_of, found)) <= room


def test_a_list_changes_seldom_while_one_thing_after_another_is_found() -> None:
    held: list[Piece] = []
    cut = 0
    for number in range(60):
        fresh = [piece(f"p{number - back}") for back in range(3) if number >= back]
        new = renewed(held, fresh, 800)
        cut += new[: len(held)] != held
        held = new
    assert 0 < cut <= 60 // 4


# -- where a person was --------------------------------------------------------------------------


def test_places_move_with_the_lines_above_and_near_ones_are_one() -> None:
    recent = Recent()
    recent.edited("a.py", 50, 0)
    recent.edited("a.py", 55, 0)
    recent.edited("a.py", 10, 5)
    assert recent.past.changed == (Place("a.py", 10), Place("a.py", 60))
    assert recent.visited("a.py", 10) and not recent.visited("a.py", 20)
    assert recent.visited("a.py", 90) and recent.visited("b.py", 90)
    recent.closed("a.py")
    assert recent.past.changed == () and recent.past.visited == (Place("b.py", 90),)


@pytest.mark.parametrize("seen", [8, 20, 34])
def test_a_yank_that_is_cut_inside_a_secret_shows_nothing_of_it(seen: int) -> None:
    recent = Recent()
    text = "x = 1\n" * 400
    for secret in ("ghp_" + "a1B2" * 9, "-----BEGIN PRIVATE KEY-----\nMIIC" + "q9Zx" * 40):
        recent.yanked("a.py", "python", text[: MAX_YANK - seen - 1] + "\n" + secret)
    assert len(recent.past.yanked) == 2
    for yank in recent.past.yanked:
        assert len(yank.text) <= MAX_YANK
        assert "a1B2" not in yank.text and "q9Zx" not in yank.text and "MIIC" not in yank.text


def test_a_yank_is_clean_short_and_kept_once() -> None:
    recent = Recent()
    for text in (
        "x",
        "token = 'ghp_" + "a1B2" * 9 + "'",
        "def kept(value):\r\n    pass",
        "y" * 9_999,
    ):
        recent.yanked("a.py", "python", text)
        recent.yanked("a.py", "python", text)
    texts = [yank.text for yank in recent.past.yanked]
    assert len(texts) == 3 and "a1B2" not in "".join(texts) and "\r" not in "".join(texts)
    assert max(map(len, texts)) == 2_000


def test_a_text_that_gets_another_language_is_read_anew() -> None:
    text = "  start(fuel) {\n    return fuel;\n  }\n"
    gatherer = Gatherer({"definition": 1.0})
    for language, pieces in (("vue", 1), ("php", 0), ("vue", 1)):
        material = Material([Source("b", language, text)])
        question = asked("start(|\n", "app/main", language)
        assert len(gatherer.pieces(question, material)) == pieces


def test_of_two_open_texts_with_one_path_the_latest_used_one_is_meant() -> None:
    question = asked("from b import frob\n\nfrob(|\n", "a.py")
    open_ = [Source("b.py", "python", f"def frob({one}):\n    pass\n") for one in ("new", "old")]
    pieces = Gatherer({"definition": 1.0}).pieces(question, Material(open_))
    assert [piece.text for piece in pieces] == ["def frob(new):\n    pass"]
