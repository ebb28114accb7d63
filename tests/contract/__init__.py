"""The operator and its CRD against a real API server."""
