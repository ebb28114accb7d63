"""`make demo`: the whole path on this machine, ending in attainment by class and policy.

Flow: ``__main__`` (the steps) -> ``install`` (cluster, images, chart, resource) -> ``compare`` (the same load
under each policy, switched live) -> ``engine`` (the engine's own counters) -> ``summary`` (table and JSON).
"""
