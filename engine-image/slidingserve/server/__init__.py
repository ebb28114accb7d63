"""What the front end and the processes share: live configuration, promises, attainment, metrics, state and
routes."""
