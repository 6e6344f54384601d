"""Measurements: what the figures in the documentation come from, and how to repeat them."""
