"""Files of the repository that the engine's package makes: `make generate` asks for them by `generated_files`."""

from __future__ import annotations

from slidingserve.config import schema_text
from slidingserve.server.metrics import reference_page


def generated_files() -> dict[str, str]:
    """Path in the repository to whole text."""
    return {
        "engine-image/slidingserve/config.schema.json": schema_text(),
        "docs/reference/metrics.md": reference_page(),
    }
