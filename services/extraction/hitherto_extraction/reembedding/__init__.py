"""Re-embedding (C7): back-fill vectors of a new model, then switch, or roll back.

The model belongs to the installation, because one model's vectors cannot be compared with
another's. Reads stay on the active one until the switch, which is one transaction, as going back
is. What changes while a back-fill runs is noticed by its `text_version`.
"""
