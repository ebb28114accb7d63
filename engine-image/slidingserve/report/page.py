"""Last stage of the report: PNG files and one HTML page that needs no other file and no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from slidingserve.report import captions, compared, render, sections, tables, text
from slidingserve.report.rows import Results
from slidingserve.report.sections import Section
from slidingserve.whole import whole

PAPERS = "SlidingServe, simulated: our numbers beside the paper's"
OWN = "SlidingServe, simulated: policies compared"
EXPECTED = ("figure4", "figure5", "figure6", "table4", "table5")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
caption { text-align: left; font-weight: 600; padding: 0.4rem 0; }
th, td { border: 1px solid #ccc; padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
th { background: #eee; }
.scroll { overflow-x: auto; }
.caption { font-size: 0.9rem; color: #444; }
.warning { background: #fff3cd; padding: 0.6rem; }
"""


def write(results: Results, out: Path, notes: str = "") -> list[str]:
    """Write the PNGs and index.html below `out`; what was left out for want of rows, a line each."""
    out.mkdir(parents=True, exist_ok=True)
    found = sections.sections(results)
    parts = []
    for section in found:
        image = render.png(section.figure) if section.figure is not None else None
        if image is not None:
            with whole(out / f"{section.name}.png") as place:
                place.write_bytes(image)
        parts.append(_section(section, image))
    own = {section.name for section in found} <= set(compared.CAPTIONS)
    left_out = [] if own else [name for name in EXPECTED if name not in {section.name for section in found}]
    with whole(out / "index.html") as place:
        place.write_text(_page(results, parts, notes, left_out, PAPERS if not own else OWN), encoding="utf-8")
    return left_out


def _page(results: Results, parts: Sequence[str], notes: str, left_out: Sequence[str], heading: str) -> str:
    about = results.about
    body = [f"<h1>{heading}</h1>"]
    if about.quick:
        body.append(
            '<p class="warning">Made by the quick form: few requests, coarse rates, not to be quoted.</p>'
        )
    intervals = f" {captions.INTERVALS}" if heading == PAPERS else ""
    body.append(f"<p>{html.escape(captions.conditions(about) + intervals)}</p>")
    headline = tables.headline(results.rows)
    if headline is not None:
        body.append(text.table_html(headline))
    if left_out:
        body.append(
            f"<p>Left out, because the results have no rows for it: {html.escape(', '.join(left_out))}.</p>"
        )
    body += parts
    if notes.strip():
        body.append("<h2>What differs from the paper, and why</h2>\n" + text.notes_html(notes))
    if about.hardware:
        lines = "".join(
            f"<li><code>{html.escape(name)}</code>: {html.escape(line)}</li>"
            for name, line in about.hardware.items()
        )
        body.append(f"<h2>Hardware profiles</h2><ul>{lines}</ul>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>SlidingServe results</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _section(section: Section, image: bytes | None) -> str:
    lines = [f'<h2 id="{section.name}">{html.escape(section.title)}</h2>']
    table = text.table_html(section.table) if section.table is not None else ""
    if image is not None and not section.only_table:
        lines.append(f'<img alt="{html.escape(section.title)}" src="{render.data_uri(image)}">')
    lines.append(f'<p class="caption">{html.escape(section.caption)}</p>')
    if table:
        lines.append(f"<details><summary>Table</summary>{table}</details>" if section.folded else table)
    return "\n".join(lines)
