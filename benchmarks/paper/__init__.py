"""The paper's evaluation on simulated hardware: `make bench-paper`.

plan (what is measured) -> jobs (one measurement each, equal ones once) -> measure (through slidingserve.sim)
-> runner (processes, resumption, progress) -> output (rows, table, report).
"""
