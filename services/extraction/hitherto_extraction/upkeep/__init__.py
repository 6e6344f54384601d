"""Upkeep without a model: decay archives, retention deletes, and schedules say when.

Both run as jobs of a tenant or of one user, in short transactions that lock the users concerned
like every writer. Only retention deletes, and only on request.
"""
