"""What an entity is called: the short way for names of one word gives what the long way gives."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from hitherto_shared.database import migrate
from hitherto_shared.text.normalise import fold

_PLAIN_LETTERS = Path(migrate.__file__).parent / "migrations" / "0080_plain_letters.sql"


@pytest.mark.parametrize(
    ("name", "aliases", "email", "called"),
    [
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
    ],
)
def test_called(
    superuser_conninfo: str, name: str, aliases: list[str], email: str, called: list[str]
) -> None:
    with psycopg.connect(superuser_conninfo) as connection:
        row = connection.execute(
            "SELECT hitherto.entity_called(%s, %s::text[], %s)", (name, aliases, email)
        ).fetchone()
    assert row is not None
    assert sorted(row[0]) == sorted(called)


def test_d7_names_from_before_are_folded_as_new_ones_are(superuser_conninfo: str) -> None:
    """Each once: of two names that become equal, one keeps its key."""
    names = {"łukasz pawłowski": "łukasz pawłowski", "ærø": "Ærø", "aerø": "aerø", "ｎｔｔ": "NTT"}
    names |= {"ha noi": "Hà Nội", "łodz": "Łódź", "lodz": "Lodz"}
    with psycopg.connect(superuser_conninfo) as connection:
        connection.execute("SET search_path = hitherto, public")
        connection.execute("INSERT INTO users (tenant_id, user_id) VALUES ('folding', 'ana')")
        for key, name in names.items():
            connection.execute(
                "INSERT INTO entities (tenant_id, user_id, entity_id, name, name_key, type)"
                " VALUES ('folding', 'ana', gen_random_uuid(), %s, %s, 'person')",
                (name, key),
            )
        connection.execute(_PLAIN_LETTERS.read_text("utf-8").encode())
        keys = {
            row[0]
            for row in connection.execute(
                "SELECT name_key FROM entities WHERE tenant_id = 'folding'"
            )
        }
        connection.rollback()
    assert {"lukasz pawlowski", "ntt", "ha noi", "lodz", "łodz", "aero"} <= keys
    assert len(keys) == len(names)
    assert fold("Łukasz Pawłowski") in keys
