"""What a person writes into the configuration is taken as it is meant, or refused by name."""

from pathlib import Path

import pytest

from completiond import config
from completiond.errors import ConfigError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[engine]\nkv_mbs = 64\n", "did you mean `kv_mb`"),
        ("[engines]\nkv_mb = 64\n", "did you mean `engine`"),
        ("kv_mb = 64\n", "must be a \\[section\\]"),
        ("[engine]\nkv_mb = 64.5\n", "whole number"),
        ("[engine]\nkv_mb = true\n", "type int"),
        ("[engine]\nkv_mb = 1\n", "between 16"),
        ("[engine]\npass_ms = nan\n", "between"),
        ("[engine]\nspeculation = 'fast'\n", "one of"),
        ("[engine]\nspeculation = 'lookup,auto'\n", "a list of"),
        ("[engine]\nspeculation = ''\n", "one of"),
        ("[model]\nname = 5\n", "type str"),
        ("[model]\nname = ''\n", "models list"),
        ("[engine\n", "TOML"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_by_name(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says):
        config.load(file=written(tmp_path, text), environ={})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("COMPLETIOND_ENGINE_KVMB", "did you mean `kv_mb`"),
        ("COMPLETIOND_ENGIN_KV_MB", "did you mean `engine`"),
        ("COMPLETIOND_KV_MB", "known are"),
        ("COMPLETIOND_ENGINE", "unknown key"),
    ],
)
def test_a_variable_of_ours_that_names_no_key_is_refused_by_name(tmp_path, name, says):
    with pytest.raises(ConfigError, match=f"{name}.*{says}"):
        config.load(file=tmp_path / "none.toml", environ={name: "64"})


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path):
    path = written(tmp_path, "[engine]\nkv_mb = 64\nthreads = 1\n[model]\ncontext = 128\n")
    environ = dict.fromkeys(config.ENV_PLACES, "/x") | {
        "COMPLETIOND_ENGINE_KV_MB": "65",
        "COMPLETIOND_ENGINE_THREADS": "2",
        "COMPLETIONDX_ENGINE_THREADS": "9",
    }
    made = config.load({"engine.threads": 3, "model.draft": None}, file=path, environ=environ)
    assert (made.model.context, made.engine.kv_mb, made.engine.threads) == (128, 65, 3)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("engine.threads", -3, "must be between 0"),
        ("engine.kernel", "int4", "must be one of"),
        ("engine.speculation", "suffix,small_model", "names small_model, which drafts with"),
        ("engine.speculation", "magic", "must be one of auto"),
        ("model.name", "", "is empty"),
        ("record.otlp", "nowhere", "must be the address"),
        ("http.key", "short", "has under 16"),
        ("http.port", 8095, "is set without http.key"),
    ],
)
def test_a_value_that_cannot_be_is_said_with_where_it_comes_from(tmp_path, key, value, says):
    section, name = key.split(".")
    flag = {"model.name": "--model", "http.port": "--http"}.get(key, f"--{name}")
    path = written(tmp_path, f"[{section}]\n{name} = {value!r}\n")
    variable = f"COMPLETIOND_{section}_{name}".upper()
    nowhere = tmp_path / "none.toml"
    for source, given in (
        (str(path), lambda: config.load(file=path, environ={})),
        (variable, lambda: config.load(file=nowhere, environ={variable: str(value)})),
        (flag, lambda: config.load({key: value}, file=nowhere, environ={})),
    ):
        with pytest.raises(ConfigError) as raised:
            given()
        assert str(raised.value).startswith(f"{source}: {key} {says}")


def test_a_value_that_cannot_be_is_said_of_the_source_that_won(tmp_path):
    path = written(tmp_path, "[engine]\nthreads = 4\n")
    with pytest.raises(ConfigError, match="^COMPLETIOND_ENGINE_THREADS: engine.threads must"):
        config.load(file=path, environ={"COMPLETIOND_ENGINE_THREADS": "-1"})
