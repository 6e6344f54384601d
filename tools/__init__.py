"""Development tools; not part of the distribution."""
