"""Grafana dashboards of SlidingServe as Python: `python -m dashboards.build` writes the JSON in the chart."""
