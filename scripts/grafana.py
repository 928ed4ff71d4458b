"""grafana.py: writes docs/grafana.json, completiond's metrics as a dashboard for Grafana to import.

A test holds its queries against the metrics that there are; change PANELS and run it again.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parents[1] / "docs" / "grafana.json"
RATE = "$__rate_interval"
WIDE, TALL = 8, 8
ACROSS = 3
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


class Panel(NamedTuple):
    """A drawing: its queries by what their lines are called."""

    title: str
    unit: str
    queries: dict[str, str]


def quantile(share: float, stage: str = "total") -> str:
    buckets = f'rate(completiond_stage_seconds_bucket{{stage="{stage}"}}[{RATE}])'
    return f"histogram_quantile({share}, sum by (le) ({buckets}))"


def rate(metric: str, by: str = "") -> str:
    return f"sum {f'by ({by}) ' if by else ''}(rate({metric}[{RATE}]))"


def percentiles(stage: str) -> dict[str, str]:
    shares = {"half": 0.5, "90 %": 0.9, "99 %": 0.99}
    return {name: quantile(share, stage) for name, share in shares.items()}


def ratio(part: str, whole: str) -> str:
    return f"{part} / {whole}"


STAGES = rate("completiond_stage_seconds_sum", "stage")
PANELS = (
    Panel("Latency of a key", "s", percentiles("total")),
    Panel("First text of a run", "s", percentiles("text")),
    Panel("From a cancel to a free device", "s", percentiles("free")),
    Panel("Where the time goes, seconds a second", "s", {"{{stage}}": STAGES}),
    Panel("Keys a second, by how they were answered", "reqps",
          {"{{kind}}": rate("completiond_keys_total", "kind")}),
    Panel("Why there was an answer or none", "reqps",
          {"{{reason}}": rate("completiond_reasons_total", "reason")}),
    Panel("Drafted tokens that held, by source", "percentunit",
          {"{{source}}": ratio(rate("completiond_held_tokens_total", "source"),
                               rate("completiond_drafted_tokens_total", "source"))}),
    Panel("Tokens a pass, those that only read prompts left out", "none",
          {"tokens": ratio(rate('completiond_tokens_total{what="generated"}'),
                           rate("completiond_writing_passes_total"))}),
    Panel("Prompt tokens that the cache had", "percentunit",
          {"reused": ratio(rate('completiond_tokens_total{what="reused"}'),
                           rate('completiond_tokens_total{what="prompt"}'))}),
    Panel("What became of shown answers", "reqps",
          {"{{outcome}}": rate("completiond_outcomes_total", "outcome")}),
    Panel("Accepted text that is left", "percentunit",
          {"after {{after_s}} s": ratio(rate("completiond_retained_characters_total", "after_s"),
                                        rate("completiond_followed_characters_total", "after_s"))}),
    Panel("KV cache and memory", "bytes",
          {"KV cache": "completiond_kv_bytes", "budget": "completiond_kv_budget_bytes",
           "memory": "completiond_resident_bytes"}),
    Panel("Clients and requests", "none",
          {"clients": "completiond_clients", "running": "completiond_running",
           "waiting": "completiond_waiting", "ready": "completiond_up"}),
)  # fmt: skip


def made() -> dict[str, Any]:
    source = {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource"}
    return {
        "__inputs": [source | {"pluginId": "prometheus", "pluginName": "Prometheus"}],
        "title": "completiond",
        "uid": "completiond",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, ACROSS)
    targets = [
        {"refId": chr(ord("A") + at), "expr": query, "legendFormat": name, "datasource": SOURCE}
        for at, (name, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDE, "y": row * TALL, "w": WIDE, "h": TALL},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def text() -> str:
    return json.dumps(made(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(FILE)
