"""The figures, on hand-written passes; and the page that shows them."""

import re
from html.parser import HTMLParser

import pytest

from completiond.core import Draft, Outcome, Step
from completiond.measure.acceptance import Account, Way, quartiles
from completiond.measure.lab import Ran
from completiond.measure.page import WIDTH, page

CHAIN = Draft.chain([5, 6, 7], "lookup")
TREE = Draft((5, 8, 6), (-1, -1, 0), (0.5,) * 3, ("suffix", "lookup", "suffix"))


def step(tree: Draft, ids: tuple[int, ...], accepted: dict[str, int]) -> Step:
    drafted: dict[str, int] = {}
    for source in tree.sources:
        drafted[source] = drafted.get(source, 0) + 1
    return Step(ids, 1 + len(tree), drafted, accepted, None, tree)


def ran(steps: list[Step], seconds: float) -> Ran:
    return Ran(Outcome(ids=[token for one in steps for token in one.ids]), steps, seconds)


PLAIN = ran([Step((token,), 1) for token in (5, 6, 9, 5, 2)], 1.0)
LOOKUP = ran([step(CHAIN, (5, 6, 9), {"lookup": 2}), step(CHAIN, (5, 2), {"lookup": 1})], 0.5)


def test_counts_are_by_source_and_depth() -> None:
    way = Way("lookup")
    way.add(LOOKUP, PLAIN)
    source = way.sources["lookup"]
    assert (source.drafted, source.accepted, way.coverage("lookup")) == (6, 3, 1.0)
    assert way.tokens_per_pass == 2.5 and way.other == 0
    # Depth 1 held twice, depth 2 once of twice; depth 3 was decided on once only.
    assert source.hazard() == [1.0, 0.5, 0.0]
    assert [source.at[depth] for depth in range(3)] == [2, 2, 1]


def test_siblings_are_decided_on_together_and_below_a_miss_nothing_is() -> None:
    way = Way("both")
    way.add(ran([step(TREE, (8, 4), {"lookup": 1})], 1.0), ran([], 1.0))
    assert way.sources["suffix"].hazard() == [0.0] and way.sources["lookup"].hazard() == [1.0]
    assert way.other == 1


def test_a_pass_without_drafts_lowers_the_coverage() -> None:
    way = Way("lookup")
    way.add(ran([*LOOKUP.steps, Step((3,), 1), Step((3,), 1)], 1.0), PLAIN)
    assert way.coverage("lookup") == 0.5


def test_speed_is_of_pairs_and_of_the_whole() -> None:
    account = Account()
    account.add({"plain": PLAIN, "lookup": LOOKUP})
    account.add({"plain": ran(PLAIN.steps, 3.0), "lookup": ran(LOOKUP.steps, 0.5)})
    assert account.speeds("lookup") == [2.0, 6.0] and account.speed("lookup") == 4.0
    found = account.as_json()
    assert found["speedup_vs_plain"] == {"plain": 1.0, "lookup": 4.0}
    assert found["tokens_per_pass"] == {"plain": 1.0, "lookup": 2.5}
    assert (found["spots"], found["mismatches"]) == (2, 0)


@pytest.mark.parametrize(
    ("values", "wanted"), [([], []), ([2.0], [2.0] * 3), ([1.0, 2.0, 3.0], [1.5, 2.0, 2.5])]
)
def test_quartiles_of_few_values(values: list[float], wanted: list[float]) -> None:
    assert quartiles(values) == wanted


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(about: dict[str, str]) -> str:
    account = Account()
    account.add({"plain": PLAIN, "lookup": LOOKUP})
    return page(account.as_json(), about)


def test_the_page_asks_nobody_for_anything() -> None:
    text = shown({"model": "tiny"})
    elements = Elements()
    elements.feed(text)
    assert not elements.open, "every element is closed"
    for tag, attributes in elements.found:
        assert tag not in ("script", "link", "img", "iframe")
        assert not {"src", "href", "style-src"} & set(attributes)
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme:dark" in text


def test_the_page_shows_what_was_measured() -> None:
    text = shown({"model": "<tiny> & small"})
    assert "&lt;tiny&gt; &amp; small" in text and "<tiny>" not in text
    assert text.count("<svg") == 3 and ">2.50<" in text and ">50%</td>" in text
    circles = re.findall(r"<circle[^>]*>", text)
    assert len(circles) == 3 and all('fill="none"' in circle for circle in circles)


def test_a_source_has_one_colour_in_all_drawings_and_every_label_fits_in() -> None:
    text = shown({"model": "m"})
    (bars, speeds, curves) = re.findall(r"<svg.*?</svg>", text, re.S)
    for colour in set(re.findall(r'stroke="(#\w+)"', curves)):
        assert f'fill="{colour}"' in bars and f'fill="{colour}"' in speeds
        assert f'color:{colour}"' in text, "the key"
    for drawing in (bars, speeds, curves):
        for x, anchor, label in re.findall(
            r'x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">([^<]*)<', drawing
        ):
            room = {"end": float(x), "middle": 2 * min(float(x), WIDTH - float(x))}[anchor]
            assert 7 * len(label) <= room, label


def test_a_page_without_any_drafts_is_a_page() -> None:
    account = Account()
    account.add({"plain": PLAIN})
    elements = Elements()
    elements.feed(page(account.as_json(), {}))
    assert not elements.open
