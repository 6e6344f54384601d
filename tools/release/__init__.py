"""Builds what is published, and checks it: `python -m tools.release`."""
