"""Windows of other texts: which are found, against a plain count of words."""

from hypothesis import given
from hypothesis import strategies as st

from completiond_lsp.retrieval.similar import BLOCK, LEAST, PER_TEXT, Found, Similar
from completiond_lsp.retrieval.sources import Question, Source
from completiond_lsp.retrieval.words import likeness, words

LINES = st.lists(
    st.lists(st.sampled_from("alpha beta gamma delta omega sigma".split()), max_size=3).map(
        " ".join
    ),
    max_size=9 * BLOCK,
)


def plainly(question: Question, source: Source) -> list[Found]:
    """The same by comparing sets of words."""
    wanted = words(question.text)
    lines = source.lines
    starts = range(0, len(lines), BLOCK)
    scores = {at: likeness(wanted, words("\n".join(lines[at : at + 2 * BLOCK]))) for at in starts}
    found: list[Found] = []
    for at in sorted(starts, key=lambda at: (-scores[at], at)):
        apart = all(abs(at - other.first) > BLOCK for other in found)
        if scores[at] >= LEAST and apart and len(found) < PER_TEXT:
            found.append(Found(scores[at], source, at))
    return found


@given(LINES, LINES)
def test_windows_are_those_of_a_plain_count(asked: list[str], other: list[str]) -> None:
    question = Question("here.py", "python", "\n".join(asked[:4]), 0)
    source = Source("there.py", "python", "\n".join(other))
    assert Similar().find(question, [source], 12) == plainly(question, source)


def test_an_edited_text_is_cut_again_and_the_oldest_texts_go() -> None:
    question = Question("here.py", "python", "load(order)", 0)
    similar = Similar(limit=2)
    texts = [Source(f"{n}.py", "python", "load(order)\n") for n in range(4)]
    assert len(similar.find(question, texts, 12)) == 4
    edited = Source("3.py", "python", "save(user)\n")
    assert similar.find(question, [edited], 12) == []
    assert len(similar.find(question, texts, 12)) == 4
