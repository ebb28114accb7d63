"""Tables as markdown and HTML, and a little markdown as HTML: all of the report that needs no drawing."""

from __future__ import annotations

import html
import re

from slidingserve.report.tables import Table


def markdown(table: Table) -> str:
    """The table under its title."""
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{body}\n"


def table_html(table: Table) -> str:
    """The table with its title as caption."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>\n" for line in table.rows
    )
    return (
        f'<div class="scroll"><table><caption>{html.escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def notes_html(notes: str) -> str:
    """Headings, paragraphs, "- " lists, **bold** and `code` of markdown; all else is text as it stands."""
    blocks = []
    for block in re.split(r"\n\s*\n", notes.strip()):
        if heading := re.match(r"(#+) +(.*)", block):
            blocks.append(f"<h3>{_inline(heading[2])}</h3>")
            block = block[heading.end() :].strip()
        if block.startswith("- "):
            items = re.split(r"\n- ", "\n" + block)[1:]
            blocks.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>")
        elif block:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "\n".join(blocks)


def _inline(markup: str) -> str:
    escaped = html.escape(" ".join(markup.split()), quote=False)
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)
