"""Benchmarks: the source of the figures in the documentation.

`command` runs every one of them, `report` has the one form of a result and prints it, `comparison`
holds two results against each other, `serving` and `processes` start what is measured,
`model_server` and `floor` are processes beside it, and `words` makes text for it.
"""


class BenchmarkFailed(RuntimeError):
    """A run cannot come to its end; the message says why."""
