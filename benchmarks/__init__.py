"""Measurements that people run by hand: `make bench-...`. Each writes its results below build/."""
