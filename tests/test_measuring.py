"""`bench acceptance` and `audit` as a person uses them, on tiny models from disk."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from tiny_checkpoint import saved

from completiond.commands import bench
from completiond.commands.counted import spoken
from completiond.measure.acceptance import Account
from completiond.measure.lossless import Audit
from completiond.record import place

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str, str]]
CODE = "".join(f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(12))
QUICK = ("--cpu", "--threads", "1", "--tokens", "8", "-n", "2")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("target", "draft")):
        torch.manual_seed(seed)
        saved(where / name, "qwen2", max_position_embeddings=512, initializer_range=0.3)
    return where


@pytest.fixture(autouse=True)
def code(apart: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(CODE)


def measured(out: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(out.splitlines()[-1])
    return found


def test_acceptance_measures_every_drafter_beside_plain_decoding(run: Run, models: Path) -> None:
    both = ("--model", str(models / "target"), "--draft", str(models / "draft"))
    arguments = ("bench", "acceptance", "--files", "src", *both, *QUICK)
    code, out, err = run(*arguments, "--json", "--plot", "page.html")
    assert code == 0, err
    found = measured(out)
    ways = set(found["tokens_per_pass"])  # type: ignore[call-overload]
    assert {"plain", "recycled", "lookup", "small_model", "auto"} <= ways
    assert (found["spots"], found["mismatches"]) == (2, 0)
    assert found["tokens_per_pass"]["plain"] == 1.0  # type: ignore[index]
    assert found["memory_bytes"]["drafters"]["small_model"] > 0  # type: ignore[index]
    assert "tokens/pass" in out and "coverage" in out and "The page is" in err
    assert Path("page.html").read_text().count("<svg") == 3


def test_headings_and_numbers_are_whole_in_80_columns() -> None:
    source = SimpleNamespace(drafted=123_456, accepted=98_765, hazard=lambda: [0.55, 1.0] * 3)
    way = SimpleNamespace(name="small_model", sources={"early_exit": source}, coverage=lambda _: 1)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(bench._sources(SimpleNamespace(ways={"small_model": way})))  # type: ignore[arg-type]
    head, *rows = console.export_text().splitlines()
    assert head.split()[:6] == "way source drafted accepted share coverage".split()
    assert rows[0].split()[:4] == ["small_model", "early_exit", "123456", "98765"]
    assert "…" not in head + "".join(rows) and "kept at depth" in head


def test_without_a_name_the_page_goes_to_the_state_folder(run: Run, models: Path) -> None:
    code, out, err = run("bench", "acceptance", "--model", str(models / "target"), *QUICK)
    assert code == 0 and "{" not in out
    page = Path(err.splitlines()[-1].removeprefix("The page is "))
    assert page == place.directory() / "acceptance.html" and page.is_file()
    assert page.parent.stat().st_mode & 0o777 == 0o700


def test_an_audit_says_that_the_engine_is_lossless(run: Run, models: Path) -> None:
    both = ("--model", str(models / "target"), "--draft", str(models / "draft"))
    more = ("--buffers", "2", "--trials", "400", "--json")
    code, out, err = run("audit", "--files", "src", *both, *QUICK, *more)
    assert code == 0, out + err
    assert "Lossless: all " in out and "has the target's law" in out and "is caught" in out
    found = measured(out)
    assert found["whole"] and len(found["samplers"]) == 5  # type: ignore[arg-type]
    assert not any(check["divergences"] for check in found["checks"].values())  # type: ignore[attr-defined]


def test_an_audit_that_finds_something_exits_with_1(
    run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from completiond.engine import verify

    monkeypatch.setattr(
        verify, "match", lambda ids, before, drawn, above: torch.ones_like(ids, dtype=torch.bool)
    )
    arguments = ("--model", str(models / "target"), "--trials", "200", *QUICK)
    code, out, err = run("audit", "--files", "src", *arguments)
    assert code == 1 and "NOT lossless" in out and "parts at token" in err
    assert "Traceback" not in err


# -- Ctrl-C ------------------------------------------------------------------------------------


def stops_after(calls: int, real: Callable[..., None]) -> Callable[..., None]:
    done = 0

    def stops(*arguments: object) -> None:
        nonlocal done
        if done == calls:
            raise KeyboardInterrupt
        done += 1
        real(*arguments)

    return stops


def test_ctrl_c_shows_the_spots_that_are_done(
    run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os._exit", lambda code: exit(code))
    monkeypatch.setattr(Account, "add", stops_after(1, Account.add))
    arguments = ("--model", str(models / "target"), *QUICK, "--json", "--plot", "page.html")
    code, out, err = run("bench", "acceptance", "--files", "src", *arguments)
    assert code == 130 and "Stopped after 1 of 2 spots." in err
    assert measured(out)["spots"] == 1 and Path("page.html").stat().st_size > 1000
    monkeypatch.setattr(Account, "add", stops_after(0, Account.add))
    code, out, err = run("bench", "acceptance", "--files", "src", *arguments)
    assert code == 130 and measured(out)["spots"] == 0 and "Traceback" not in err


def test_ctrl_c_says_what_an_audit_found_so_far(
    run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os._exit", lambda code: exit(code))
    monkeypatch.setattr(Audit, "compare", stops_after(1, Audit.compare))
    arguments = ("--model", str(models / "target"), *QUICK, "--json")
    code, out, err = run("audit", "--files", "src", *arguments)
    assert code == 130 and "so far" in err and "Lossless: all " in out
    assert measured(out)["whole"] is False
    monkeypatch.setattr(Audit, "compare", stops_after(0, Audit.compare))
    code, out, err = run("audit", "--files", "src", *arguments)
    assert code == 130 and "Nothing was compared." in out


# -- mistakes ----------------------------------------------------------------------------------

MISTAKES = [
    (("--files", "none.py"), "There is no file none.py."),
    (("--files", "binary.py"), "NUL bytes"),
    (("--files", "empty"), "There is no source code in empty"),
    (("--files", "short.py", "none.py"), "There is no file none.py."),
    (("--files", "*.rs"), "There is no source code that *.rs matches"),
    (("--files", "short.py"), "no text that is long enough"),
    (("-n", "0"), "At least one spot must be measured"),
    (("--model", "qwen2.5-coder-0.5"), "did you mean `qwen2.5-coder-0.5b`?"),
    (("--model", "qwen2.5-coder-0.5b"), "run `completiond models pull qwen2.5-coder-0.5b`"),
    (("--model", "MODELS/target", "--draft", "MODELS/none"), "There is no model"),
    (("--model", "MODELS/target", "--draft", "MODELS/other"), "vocabular"),
    (("--speculation", "off", "--model", "MODELS/target"), "nothing to measure"),
]


@pytest.mark.parametrize("command", [("bench", "acceptance"), ("audit",)], ids=" ".join)
@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_sentence(
    run: Run, models: Path, command: tuple[str, ...], arguments: tuple[str, ...], sentence: str
) -> None:
    Path("binary.py").write_bytes(b"a\0b" * 500)
    Path("short.py").write_text("x = 1\n")
    Path("empty").mkdir()
    other_family(models)
    given = [argument.replace("MODELS", str(models)) for argument in arguments]
    code, _, err = run(*command, *given)
    assert code == 1 and "Traceback" not in err
    last = err.splitlines()[-1]
    assert sentence in last and last.endswith((".", "?"))


def other_family(models: Path) -> None:
    """A draft whose tokens spell something else."""
    if (models / "other").exists():
        return
    shutil.copytree(models / "draft", models / "other")
    spelled = json.loads((models / "other" / "tokenizer.json").read_text())
    vocabulary = spelled["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (models / "other" / "tokenizer.json").write_text(json.dumps(spelled))


def test_a_page_that_cannot_be_written_is_told_before_anything_is_loaded(run: Run) -> None:
    code, _, err = run("bench", "acceptance", "--files", "src", "--plot", "none/page.html")
    assert code == 1 and "cannot be written to none/page.html" in err.splitlines()[-1]
    assert "Loading" not in err


USAGE = [
    ("bench",),
    ("bench", "acceptance", "--tokens", "1"),
    ("bench", "acceptance", "-n", "many"),
    ("audit", "--buffers", "0"),
    ("audit", "--temperature", "0"),
    ("audit", "--temperature", "nan"),
    ("audit", "--trials", "3"),
    ("audit", "--cpu", "--gpu", "0"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_exits_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)
    assert code == 2 and "Traceback" not in err


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "about 1 s"), (89, "about 89 s"), (150, "about 2 min")]
)
def test_the_time_left_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert spoken(seconds) == f"{said} to go"
