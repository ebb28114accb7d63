"""Grafana dashboards and Prometheus rules as Python; `make generate` writes them into the chart."""
