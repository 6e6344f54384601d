"""What tells two statements apart that an embedder finds near: a number, a name, a negation.

`statement` holds the comparison; `tokens`, `quantities`, `subjects` and `slots` are the parts of a
statement that it looks at. The words themselves are in `hitherto_shared.vocabulary`.
"""

from hitherto_extraction.pipeline.guards.statement import (
    differences,
    same_statement,
    same_wording,
)

__all__ = ["differences", "same_statement", "same_wording"]
