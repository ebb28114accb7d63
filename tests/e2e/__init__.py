"""The whole path on a real cluster: operator from its chart, a real vLLM engine, real requests.

One CPU engine (``examples/cpu-demo.yaml``) is shared by the tests; each leaves it as the example says.
"""
