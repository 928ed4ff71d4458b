"""Several drafts become one tree that holds what they held, sorted, without doubles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.core import NO_DRAFT, Draft
from completiond.drafters.guarded import is_tree
from completiond.drafters.tree import Tried, cut, depths, forks, merge, pre_order, tried

Path = tuple[int, ...]


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Any tree of few tokens, with any probabilities."""
    edges: list[tuple[int, int]] = []
    for i in range(draw(st.integers(0, 8))):
        edge = (draw(st.integers(-1, len(edges) - 1)), draw(st.integers(0, 3)))
        edges += [edge] if edge not in edges else []
        assert len(edges) <= i + 1
    n = len(edges)
    probs = draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    name = draw(st.sampled_from("abc"))
    return Draft(tuple(t for _, t in edges), tuple(p for p, _ in edges), tuple(probs), (name,) * n)


def paths(draft: Draft) -> list[Path]:
    found: list[Path] = []
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@given(st.lists(drafts(), max_size=4), st.integers(-1, 30))
def test_a_merged_tree_is_a_sorted_tree_of_known_paths(many: list[Draft], width: int) -> None:
    tree = merge(many, width)
    known = {path for draft in many for path in paths(draft)}
    assert len(tree) == min(max(0, width), len(known))
    assert is_tree(tree), "parents come first and siblings differ"
    assert set(paths(tree)) <= known
    assert list(tree.probs) == sorted(tree.probs, reverse=True)
    for prob, parent in zip(tree.probs, tree.parents, strict=True):
        assert parent < 0 or prob <= tree.probs[parent]


@given(st.lists(drafts(), max_size=4))
def test_a_path_has_its_best_probability_and_the_first_one_s_name(many: list[Draft]) -> None:
    tree = merge(many, 100)
    for node, path in enumerate(paths(tree)):
        same = [(d, paths(d).index(path)) for d in many if path in paths(d)]
        best = max(d.probs[i] for d, i in same)
        above = tree.probs[tree.parents[node]] if tree.parents[node] >= 0 else 1.0
        assert tree.probs[node] == min(best, above)
        assert tree.sources[node] == same[0][0].sources[same[0][1]]


@given(drafts(), st.integers(0, 10))
def test_a_narrower_tree_is_the_beginning_of_a_wider_one(draft: Draft, width: int) -> None:
    whole = merge([draft], 100)
    part = cut(whole, whole.probs, width)
    assert part.ids == whole.ids[:width] and part.parents == whole.parents[:width]
    assert part.probs == whole.probs[:width] and part.sources == whole.sources[:width]


def test_nothing_merges_to_nothing() -> None:
    assert merge([], 8) == merge([NO_DRAFT], 8) == NO_DRAFT


def test_what_a_guess_rests_on_goes_with_its_node() -> None:
    one = Draft((1, 2), (-1, 0), (0.9, 0.8), ("a", "a"), None, (3, 4))
    two = Draft((1, 5), (-1, 0), (0.5, 0.4), ("b", "b"), None, (7, 8))
    tree = merge([one, two], 8)
    assert tree.ids == (1, 2, 5) and tree.matched == (3, 4, 8)


def test_a_sampled_draft_is_not_merged() -> None:
    with pytest.raises(AssertionError, match="alone"):
        merge([Draft((1,), (-1,), (0.5,), ("s",), object())], 4)


@given(drafts(), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_a_pass_decides_on_the_children_of_what_it_kept(draft: Draft, ids: list[int]) -> None:
    """Against the definition: a node is decided on if its path but for the end was committed."""
    want = [
        Tried(node, path[-1] == ids[len(path) - 1])
        for node, path in enumerate(paths(draft))
        if len(path) <= len(ids) and list(path[:-1]) == ids[: len(path) - 1]
    ]
    assert tried(draft, ids) == want
    assert depths(draft) == [len(path) - 1 for path in paths(draft)]


@given(drafts(), st.lists(st.integers(0, 3), max_size=6))
def test_a_node_for_the_stop_id_never_saves_a_pass(draft: Draft, text: list[int]) -> None:
    """Why no drafter has one: the pass that keeps the token before the end draws the end anyway."""
    stop, answer = 9, [*text, 9]
    n = len(draft)
    ends = range(-1, n)
    leaves = Draft(
        (*draft.ids, *(stop for _ in ends)),
        (*draft.parents, *ends),
        (*draft.probs, *(0.5 for _ in ends)),
        (*draft.sources, *("end" for _ in ends)),
    )
    assert committed(leaves, answer) == committed(draft, answer)


def committed(draft: Draft, answer: list[int]) -> int:
    """Tokens that one pass commits: those kept and the target's own behind them, to the end."""
    kept = sum(node.kept for node in tried(draft, answer))
    return min(kept + 1, len(answer))


@given(st.lists(st.integers(-1, 20), max_size=20))
def test_pre_order_keeps_every_path_and_puts_branches_behind_one_another(raw: list[int]) -> None:
    parents = tuple(min(p, i - 1) for i, p in enumerate(raw))
    n = len(parents)
    tree = Draft(tuple(range(n)), parents, (0.5,) * n, ("s",) * n)
    ordered = pre_order(tree)
    assert sorted(paths(ordered)) == sorted(paths(tree))
    assert forks(ordered.parents) == forks(parents)
    ends = sum(1 for i, p in enumerate(ordered.parents) if i and p != i - 1)
    assert ends == forks(parents), "each fork begins a branch, and nothing else does"
