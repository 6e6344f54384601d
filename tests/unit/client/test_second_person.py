"""Statements about a person, as the console says them to that person."""

from __future__ import annotations

from hitherto_client.console.second_person import to_second_person


def test_only_what_is_certain_is_turned() -> None:
    for stored, told in [
        ("User lives in Leith.", "You live in Leith."),
        (
            "User moved to Glasgow and lives in Glasgow.",
            "You moved to Glasgow and live in Glasgow.",
        ),
        ("User's sister Ilse lives in Lyon.", "Your sister Ilse lives in Lyon."),
        ("The user bakes their own oat bars.", "You bake your own oat bars."),
        (
            "User has a cat who tries to steal and hides.",
            "You have a cat who tries to steal and hides.",
        ),
        ("User studies law. User doesn't drive.", "You study law. You don't drive."),
        ("User asked: Does User run? He does.", "You asked: Does User run? He does."),
        ("User is tired; wants to rest", "You are tired; want to rest"),
        ("Người dùng sống ở Huế.", "Bạn sống ở Huế."),
        # What is unsure stays as it is.
        ("User interests include cooking.", "User interests include cooking."),
        ("User met Anna and her husband.", "User met Anna and her husband."),
        ("User rows. Maren sings.", "User rows. Maren sings."),
        ("Maren lives in Leith.", "Maren lives in Leith."),
        ("User", "User"),
        ("مريم تحب الشاي", "مريم تحب الشاي"),
    ]:
        assert to_second_person(stored) == told
