"""Which candidate comes first."""

import pytest

from completiond.core import Snapshot
from completiond.postprocess.ranking import Said, faults, ranked


def at(text: str, language: str = "", offset: int = 0) -> Snapshot:
    before, after = text.split("|")
    return Snapshot("d", 1, language, "a", before, after, offset)


@pytest.mark.parametrize(
    ("language", "text", "broken", "whole"),
    [
        ("python", "def f(x):\n    return |\n", "x if", "x + 1"),
        ("python", "x = f(|\n", "a", "a)"),
        ("typescript", "const x = f(|;\n", "a", "a)"),
        ("go", "func f() {\n\t|\n}\n", "if a {", "if a {\n\t}"),
    ],
)
def test_one_that_leaves_the_file_whole_comes_first(
    language: str, text: str, broken: str, whole: str
) -> None:
    said = [Said(broken, -0.1), Said(whole, -2.0)]
    assert ranked(said, at(text, language)) == [1, 0]


def test_of_those_the_likelier_comes_first_and_equals_stay() -> None:
    said = [Said("a", -2.0), Said("b", -0.5), Said("c", -0.5)]
    assert ranked(said, at("x = |\n", "python")) == [1, 2, 0]


@pytest.mark.parametrize("text", ["x = '\0'", "(" * 3000 + ")" * 3000, '"\\d"', "\ud800"])
def test_what_no_parser_takes_is_no_error(text: str) -> None:
    assert faults(text, at("|", "python")) >= 0


def test_a_window_of_a_file_is_not_parsed() -> None:
    assert faults("1", at("    x = |\n", "python", offset=4096)) == 0
