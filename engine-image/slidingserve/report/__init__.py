"""Results of simulated runs, drawn: the paper's figures and tables from rows, with its numbers beside ours.

rows (check) -> intervals (seeds and fits to an estimate) -> tables, figures -> sections -> page. Nothing here
runs a simulation: ``benchmarks.paper`` makes the rows, ``slidingserve report`` draws them.
"""
