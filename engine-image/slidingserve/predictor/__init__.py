"""The Batch Latency Predictor (section 3.2): features, models by scene, refresh, profiles, solo times.

`features` and `model` are what a policy sees; `online`, `calibration`, `profile` and `solo` serve the
adapter, which owns the clock and the thread.
"""
