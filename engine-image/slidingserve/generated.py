"""Files of the repository that the engine's package makes: `make generate` asks for them by
`generated_files`."""

from __future__ import annotations

import json

from slidingserve.config import MethodOptions, schema_text
from slidingserve.config_reference import config_page
from slidingserve.server.metrics import TABLE
from slidingserve.vllm_adapter import unplanned


def generated_files() -> dict[str, str]:
    """Path in the repository to whole text."""
    return {
        "engine-image/slidingserve/config.schema.json": schema_text(),
        "operator/sloserve_operator/api/scheduler_options.json": options_text(),
        "operator/sloserve_operator/api/unplanned.json": unplanned.exported(),
        "docs/reference/config.md": config_page(),
        "docs/reference/metrics.md": reference_page(),
    }


def options_text() -> str:
    """The schema of `scheduler.options` for the operator, which imports nothing of the engine."""
    properties = MethodOptions.model_json_schema(by_alias=True)["properties"]
    for node in properties.values():
        node.pop("title")
    return json.dumps({"properties": properties}, indent=1) + "\n"


def reference_page() -> str:
    """docs/reference/metrics.md, generated."""
    lines = [
        "# Metrics of the engine",
        "",
        "<!-- Generated from slidingserve/server/metrics.py by `make generate`; edit the table there. -->",
        "",
        "The operator's own are in [operator-metrics.md](operator-metrics.md).",
        "",
        "They appear on the same `/metrics` as vLLM's own. Times are in seconds. Labels: `slo_class`;",
        "`objective` is ttft, tbt or request (both); `engine` is the data parallel rank; `scene` is decode,",
        "prefill or mixed; `branch` is chunker, constructor, fixed (a policy with a fixed budget), stock",
        "(vLLM's own order) or fallback (the plan failed); `phase` is waiting, prefill or decode; `role` is",
        "api or core. Counters and histograms of several processes are summed, a gauge is merged as its row",
        "says.",
        "",
        "Attainment of a class, without bucket edges:",
        "",
        "```promql",
        'sum by (slo_class) (rate(slidingserve_slo_good_total{objective="request"}[5m]))',
        '  / (sum by (slo_class) (rate(slidingserve_slo_good_total{objective="request"}[5m]))',
        '   + sum by (slo_class) (rate(slidingserve_slo_violations_total{objective="request"}[5m])))',
        "```",
        "",
        "| metric | type | labels | counted in | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    merged = {"livemostrecent": "last written", "livemin": "lowest", "livemax": "highest", "livesum": "sum"}
    for metric in TABLE:
        kind = f"{metric.kind}, {merged[metric.mode]}" if metric.kind == "gauge" else metric.kind
        where = {"api": "API server", "core": "engine core", "both": "both"}[metric.where]
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.sample}` | {kind} | {labels} | {where} | {metric.help} |")
    return "\n".join(lines) + "\n"
