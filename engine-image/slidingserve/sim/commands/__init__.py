"""The command lines `slidingserve simulate`, `goodput` and `compare`; each is imported only when it runs."""
