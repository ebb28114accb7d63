"""The method: what a step's batch should be, from a snapshot of the requests. Pure: numpy in, a plan out.

Nothing here knows vLLM, reads a clock, does I/O or logs; `now` is a column of the snapshot. The policies
compose the parts; the adapter and the simulator make the snapshots and carry the plans out.
"""
