"""What Prometheus is told: the record's counts under fixed names, only to who has the token."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import grafana
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rows_made import DAEMON, full
from shown import METRICS_TOKEN, client, reader, with_token

from completiond import config
from completiond.dashboard.metrics import exposition
from completiond.errors import ConfigError
from completiond.record import metrics, place, queries
from completiond.record.rows import OUTCOMES
from completiond.record.store import Store
from completiond.record.wall import now_ms

STATUS = {
    "state": "ready",
    "model": 'a "model"\n',
    "clients": 2,
    "running": 1,
    "waiting": 0,
    "memory": 1 << 30,
    "engine": {"kv_bytes": 5, "kv_budget": 9, "kv_slots": 1, "device": "cpu", "kernel": "int8"},
}
SCRAPER = {"Authorization": f"Bearer {METRICS_TOKEN}"}


def filled(directory: Path) -> Path:
    path = place.following(None, directory)
    store = Store(path, DAEMON)
    keys = [full(outcome=outcome, taken=20, kept_30=10) for outcome in OUTCOMES]
    store.write(dict(enumerate([*keys, full(kind="none", reason="superseded", outcome="")], 1)))
    store.close()
    return path


def told(directory: Path) -> str:
    with queries.reading(filled(directory)) as db:
        return exposition(metrics.numbers(db, now_ms()), STATUS).decode()


def test_counts_are_those_of_the_record(tmp_path: Path) -> None:
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(told(tmp_path))
        for sample in family.samples
    }
    assert found["completiond_keys_total", "model"] == 6
    assert found["completiond_reasons_total", "superseded"] == 1
    assert found["completiond_held_tokens_total", "suffix"] == 7 * 5
    assert found["completiond_tokens_total", "generated"] == 7 * 18
    assert found["completiond_retained_characters_total", "30"] == 60
    assert found["completiond_stage_seconds_count", "total"] == 7
    assert found["completiond_stage_seconds_bucket", "0.05", "total"] == 0
    assert found["completiond_stage_seconds_bucket", "+Inf", "total"] == 7
    assert found["completiond_stage_seconds_sum", "total"] == pytest.approx(7 * 0.0908, rel=0.05)
    assert found["completiond_up",] == 1 and found["completiond_kv_bytes",] == 5


def test_only_the_token_of_metrics_opens_them_and_nothing_else(tmp_path: Path) -> None:
    with reader(tmp_path, full()) as browser:
        assert browser.get("/metrics").status_code == 401  # the page's own
        answer = browser.get("/metrics", headers=SCRAPER)
        assert answer.status_code == 200 and "version=0.0.4" in answer.headers["content-type"]
        assert 'completiond_keys_total{kind="model"} 1.0' in answer.text
        assert "completiond_up 0.0" in answer.text
        assert browser.get("/api/keys", headers=SCRAPER).status_code == 401


def test_they_are_off_unless_they_are_asked_for(tmp_path: Path) -> None:
    assert config.Config().dashboard.metrics_token == ""
    with client(tmp_path, metrics=False) as browser:
        for given in (with_token({}), {"Authorization": "Bearer "}, {}):
            assert browser.get("/metrics", headers=given).status_code == 401


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        config.load({"dashboard.metrics_token": "short"}, environ={})


def test_without_a_record_there_is_still_the_daemon(tmp_path: Path) -> None:
    with client(tmp_path) as browser:
        text = browser.get("/metrics", headers=SCRAPER).text
    assert "completiond_up 0.0" in text and "completiond_keys" not in text


def test_the_grafana_dashboard_is_what_its_script_makes_and_names_only_what_there_is(
    tmp_path: Path,
) -> None:
    assert grafana.FILE.read_text(encoding="utf-8") == grafana.text()
    there = set(re.findall(r"^(completiond_\w+)", told(tmp_path), re.MULTILINE))
    used = {
        name
        for panel in grafana.PANELS
        for query in panel.queries.values()
        for name in re.findall(r"completiond_\w+", query)
    }
    assert len(used) > 15 and used <= there


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    command = ["promtool", "check", "metrics"]
    ran = subprocess.run(command, input=told(tmp_path), capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


# -- a real Prometheus --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
@pytest.mark.usefixtures("apart")
def test_a_real_prometheus_answers_every_query_of_the_grafana_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard_process import dashboard

    filled(place.directory())
    monkeypatch.setenv("COMPLETIOND_DASHBOARD_METRICS_TOKEN", METRICS_TOKEN)
    with dashboard({}) as link, prometheus(tmp_path, link.split("/")[2]) as ask:
        until(lambda: ask('completiond_keys_total{kind="model"}'))
        for panel in grafana.PANELS:
            for query in panel.queries.values():
                ask(query.replace(grafana.RATE, "1m"))
        assert ask("completiond_up")[0]["value"][1] == "0"


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Callable[[str], list[dict[str, object]]]]:
    """Asks one that scrapes the target each second. A query that it does not take raises."""
    scrape = {
        "job_name": "completiond",
        "scrape_interval": "1s",
        "authorization": {"credentials": METRICS_TOKEN},
        "static_configs": [{"targets": [target]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["prometheus", *arguments, f"--web.listen-address={at}"], stdout=log, stderr=log
        )
    try:
        until(lambda: _get(f"http://{at}/-/ready"))
        yield lambda query: json.loads(_get(f"http://{at}/api/v1/query?query={quote(query)}"))[
            "data"
        ]["result"]
    finally:
        process.terminate()
        process.wait(20)


def _get(url: str) -> bytes:
    with urlopen(Request(url), timeout=5) as answer:
        found: bytes = answer.read()
        return found


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    give_up = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
        except OSError:
            pass
        assert time.monotonic() < give_up, "it did not come"
        time.sleep(0.1)
