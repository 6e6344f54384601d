"""The time that a question names: "last May", "hôm qua", "between 2021 and 2023" as a window.

`english.py` and `vietnamese.py` hold the words (those of other languages are in
`hitherto_shared.vocabulary.world_times`), `phrases.py` joins the phrases they find ("Friday"
+ "last week", "from" + "May" + "to" + "July"), `spans.py` does calendar arithmetic and `window.py`
holds the result and its score. It uses rules only: no model, no dictionary of the host.
"""

from hitherto_retrieval.search.dates.find import find_window
from hitherto_retrieval.search.dates.window import DISTANT_PAST, Window, closeness

__all__ = ["DISTANT_PAST", "Window", "closeness", "find_window"]
