"""Laws of the settings: what is wrong warns, and changes nothing."""

from typing import Any

import pytest

from completiond_lsp.options import Options, parse


def test_every_setting_is_taken() -> None:
    raw = {
        "enabled": False,
        "endpoint": "ipc:///x",
        "startDaemon": False,
        "model": "m",
        "maxTokens": 7,
        "maxMs": 900,
        "disabledLanguages": ["markdown"],
        "fallbackCompletion": True,
        "context": True,
        "contextTokens": 100,
        "tabSize": 2,
        "insertSpaces": False,
    }
    expected = Options(
        False, "ipc:///x", False, "m", 7, 900, ("markdown",), True, True, 100, 2, False
    )
    assert parse(raw, Options()) == (expected, [])
    assert parse({"completiond": raw}, Options()) == (expected, [])


def test_a_setting_that_is_not_given_keeps_its_value() -> None:
    base = Options(max_tokens=9)
    assert parse({"model": "m", "endpoint": None}, base) == (Options(max_tokens=9, model="m"), [])
    assert parse(None, base) == (base, [])


@pytest.mark.parametrize(
    "raw",
    [
        {"enabled": "yes"},
        {"maxTokens": True},
        {"maxTokens": "7"},
        {"maxTokens": -1},
        {"maxMs": 10**9},
        {"disabledLanguages": "python"},
        {"disabledLanguages": [1]},
        {"endpoint": 5},
        {"enabld": False},
        {"": {}},
        [],
        "text",
        7,
    ],
)
def test_a_bad_setting_warns_once_and_keeps_the_default(raw: Any) -> None:
    options, warnings = parse(raw, Options())
    assert options == Options()
    assert len(warnings) == 1


def test_a_bad_setting_does_not_spoil_the_others() -> None:
    options, warnings = parse({"maxTokens": "x", "model": "m"}, Options())
    assert options == Options(model="m")
    assert "maxTokens" in warnings[0]


def test_a_misspelt_setting_is_told_its_name() -> None:
    assert "startDaemon" in parse({"startDemon": True}, Options())[1][0]


def test_what_other_clients_put_beside_ours_is_no_mistake() -> None:
    raw = {"editorInfo": {"name": "x"}, "editorPluginInfo": {}}
    assert parse(raw, Options()) == (Options(), [])


@pytest.mark.parametrize(
    ("raw", "holds"),
    [
        (
            {"enabled": True, "disabledLanguages": ["python"]},
            Options(disabled_languages=("python",)),
        ),
        ({"insertSpaces": False, "tabSize": 0}, Options(insert_spaces=False)),
        ({"context": True, "contextTokens": 0}, Options(context=True, context_tokens=0)),
        ({"maxTokens": 0, "maxMs": 0}, Options()),
        ({"maxTokens": 9, "completiond": {"maxTokens": 3}}, Options(max_tokens=3)),
        ({"enabled": True, "completiond": {"enabled": False}}, Options(enabled=False)),
    ],
)
def test_settings_that_contradict_each_other_are_settled_without_a_warning(
    raw: Any, holds: Options
) -> None:
    options, warnings = parse(raw, Options())
    assert (options, warnings) == (holds, [])
    assert not options.wants("python") or options.enabled
    assert options.indent == ""  # with no size the file decides, whatever it is indented with


def test_a_disabled_language_is_not_wanted() -> None:
    options = Options(disabled_languages=("markdown",))
    assert options.wants("python") and not options.wants("markdown")
    assert not Options(enabled=False).wants("python")
