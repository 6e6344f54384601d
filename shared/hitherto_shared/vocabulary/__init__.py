"""Shared vocabulary: words of time, of number, and opposites."""
