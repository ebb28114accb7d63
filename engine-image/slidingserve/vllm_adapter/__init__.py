"""The only place that imports vLLM: the gate, the plugins, the scheduler, its clock and the calibration."""
