"""Re-embedding (C7): back-fill vectors of a new model, then switch, or roll back.

The model belongs to the installation, because vectors of different models are not comparable.
Changes during a back-fill are detected by `text_version`.
"""
