"""Name every place that breaks a rule; ends with 1 if there is one.

python -m tools.tree
"""

from __future__ import annotations

import sys

from tools.tree import (
    class_names,
    columns_of_rows,
    command_page,
    homes_of_sql,
    locked_packages,
    published_figures,
    repeated_runs,
    scope_of_statements,
    settings_page,
    whole_statements,
    words_of_the_contract,
    worked_examples,
    writers_of_held_rows,
)

RULES = (
    class_names,
    columns_of_rows,
    command_page,
    homes_of_sql,
    locked_packages,
    published_figures,
    repeated_runs,
    scope_of_statements,
    settings_page,
    whole_statements,
    words_of_the_contract,
    worked_examples,
    writers_of_held_rows,
)


def main() -> int:
    """Print what is broken."""
    found = [place for rule in RULES for place in rule.broken()]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
