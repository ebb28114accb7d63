"""Policies side by side on vLLM's real engine at a GPU's speed: `make bench-emulated`.

Flow: ``cells`` (what is measured) -> ``engine`` (one emulated engine, its policy switched live) ->
``measure`` (the same requests and promises for all, streamed; one JSON file a cell) -> ``table``. It runs in
real time and goes on where it was stopped. ``benchmarks.agreement`` holds the simulator against its records.
"""
