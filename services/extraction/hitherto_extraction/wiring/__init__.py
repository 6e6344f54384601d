"""Builds the service from its settings; the only place that wires it.

`base` opens what everything depends on, `work` builds jobs and schedules, `calls` builds the
handlers; `service` starts and stops all of it.
"""
