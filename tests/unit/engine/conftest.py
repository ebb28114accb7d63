"""Hypothesis on a shared machine: an example may wait for a core, so no deadline for each."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared-machine", settings(), deadline=None)
settings.load_profile("shared-machine")
