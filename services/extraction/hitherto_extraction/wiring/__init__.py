"""Builds the service from its settings; the only place that wires it together.

`base` opens what everything is made of, with the pools of `databases`; `work` makes what jobs and
schedules do, `calls` what answers callers; `service` starts all of it and ends it again.
"""
