"""What an entity is called: the short way for names of one word gives what the long way gives."""

from __future__ import annotations

import psycopg


def test_called(superuser_conninfo: str) -> None:
    cases: list[tuple[str, list[str], str, list[str]]] = [
        ("atlas", [], "", ["atlas"]),
        ("the", [], "", ["the"]),
        ("a", [], "", ["a"]),
        ("đức", [], "", ["đức"]),
        ("東京", [], "", ["東京"]),
        ("acme-gmbh", [], "", ["acme-gmbh"]),
        ("acme,", [], "", ["acme", "acme,"]),
        ("project atlas", [], "", ["atlas", "project atlas"]),
        ("sarah\u00a0johnson", [], "", ["johnson", "sarah", "sarah\u00a0johnson"]),
        ("atlas", ["Đức Atlas"], "", ["atlas", "duc", "duc atlas", "đức", "đức atlas"]),
        ("atlas", ["Łódź"], "", ["atlas", "lodz", "łódź"]),
        ("atlas", ["ＮＴＴ"], "", ["atlas", "ntt", "ｎｔｔ"]),
        ("sarah", [], "S@example.com", ["com", "s@example", "s@example.com", "sarah"]),
    ]
    for name, aliases, email, called in cases:
        with psycopg.connect(superuser_conninfo) as connection:
            row = connection.execute(
                "SELECT hitherto.entity_called(%s, %s::text[], %s)", (name, aliases, email)
            ).fetchone()
        assert row is not None, name
        assert sorted(row[0]) == sorted(called), name
