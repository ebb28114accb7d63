"""Counters read as differences, as in the server's tests."""

from __future__ import annotations

from tests.unit.server.conftest import counted

__all__ = ["counted"]
