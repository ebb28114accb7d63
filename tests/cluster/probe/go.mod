module slidingserve.dev/tests/cluster/probe

go 1.24.0
