"""Benchmarks: the source of the figures in the documentation."""
