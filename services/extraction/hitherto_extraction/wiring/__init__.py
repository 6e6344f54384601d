"""The one place that wires the service together, from its settings to a server at work.

`base` opens what everything is made of, with the pools of `databases`; `work` makes what jobs and
schedules do, `calls` what answers callers; `service` starts all of it and ends it again.
"""
