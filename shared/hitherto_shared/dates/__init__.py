"""The times that texts name: "last May", "hôm qua", "between 2021 and 2023", "3日前".

An engine, and a table for each language. `english.toml` and `vietnamese.toml` are read by `words`,
`language` (rules, and what joins their phrases), `readers` (what a match means) and `guards`
(whether it means a time at all); `world` knows near days and periods, counted units and dates in
other languages. `spans` does calendar arithmetic, `find` makes a window of a question's time,
`clauses` resolves the relative dates of a statement, `months` lists the months that it names. Rules
only: no model, no dictionary.
"""

from hitherto_shared.dates.find import MAX_CHARACTERS, find_window
from hitherto_shared.dates.window import DISTANT_PAST, Window, closeness

__all__ = ["DISTANT_PAST", "MAX_CHARACTERS", "Window", "closeness", "find_window"]
