"""Guards: distinguish statements with near vectors, by number, name, negation and so on.

`statement` holds the comparison; `tokens`, `quantities`, `placement`, `pairings`, `subjects` and
`slots` are the parts of a statement that it compares. The vocabulary is in
`hitherto_shared.vocabulary`.
"""

from hitherto_extraction.pipeline.guards.statement import differences, same_statement, same_wording

__all__ = ["differences", "same_statement", "same_wording"]
