"""The paper's evaluation on simulated hardware: `make bench-paper`.

plan (what is measured) -> measurements (equal ones once) -> runner (through slidingserve.sim's pool and
store: processes, resumption, progress) -> output (rows, table, report).
"""
