module slidingserve.dev/tests/cluster/standin

go 1.24.0
