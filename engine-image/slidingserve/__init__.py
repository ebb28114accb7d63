"""SlidingServe: deadline-aware scheduling for vLLM. This module holds the version and imports nothing."""

__version__ = "0.1.0"
