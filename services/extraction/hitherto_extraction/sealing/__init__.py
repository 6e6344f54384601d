"""Seals the existing clear text of a user who has turned encryption on (H3)."""
