"""Replays a workload against a real OpenAI endpoint and scores the promise by the client's clock.

Flow: ``workload`` (what to send, when) -> ``replay`` (sends it, bounded) -> ``client`` (one streamed
request) -> ``score`` (equation 1 on the client's clock) -> ``report`` (tables, JSON).  ``command`` is the
command line over it; ``tests.demo`` drives the same modules.
"""
