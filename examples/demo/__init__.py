"""The demo behind `make demo`; see README.md beside this file."""
