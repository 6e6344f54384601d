"""Statements that no model has compared exclude each other only in one slot (R2, fault row 72)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.guards.exclusion import exclude

EXCLUSIVE = [
    ("Ana lives in Oslo", "Ana lives in Bern"),
    ("The user currently lives in Oslo.", "The user is based in Bern"),
    ("The user lives in Oslo.", "Ana lives in Bern with Lan"),
    ("Lives in Oslo", "I live in Bern"),
    ("Người dùng sống ở Hà Nội.", "Người dùng sống ở Huế."),
    ("Пользователь живёт в Москве", "Пользователь живёт в Казани"),
    ("Der Nutzer wohnt in Bern.", "Der Nutzer wohnt in Oslo"),
    ("La usuaria vive en Lima", "La usuaria vive en Cusco"),
    ("L'utente abita a Roma", "L'utente abita a Milano"),
    ("O usuário mora em Lisboa", "O usuário mora em Porto"),
    ("L'utilisateur habite à Lyon", "L'utilisateur habite à Paris"),
    ("User works at Siemens.", "User works for Maersk since May"),
    ("Ana works as a nurse in Leeds", "Ana works as an engineer"),
    ("The user is married to Ben", "The user is married to Carl"),
    ("User is single.", "User is married to Ben."),
    ("Người dùng độc thân.", "Người dùng đã kết hôn."),
    ("User is a vegetarian.", "User eats meat"),
    ("User's name is Ana.", "User's name is Inês."),
    ("The user is called Ana", "The user is named Inês"),
    ("The user's sister lives in Oslo", "The user's sister lives in Bern"),
]


@pytest.mark.parametrize(("one", "other"), EXCLUSIVE)
def test_two_values_of_one_slot_exclude_each_other(one: str, other: str) -> None:
    assert exclude(one, other)
    assert exclude(other, one)


COMPATIBLE = [
    ("Ana is allergic to peanuts", "Ana is allergic to cashews"),
    ("Ana likes tea", "Ana likes coffee"),
    ("Ana has a cat", "Ana has a dog"),
    ("Ana has a cat named Tom", "Ana has a dog named Rex"),
    ("Ana speaks German", "Ana speaks French"),
    ("Ana lives in Oslo", "Ana lives in Oslo, Norway"),
    ("Ana lives in Oslo with Lan", "Ana lives in Oslo with Huy"),
    ("Ana lives in Oslo. She works at Acme.", "Ana lives in Oslo. She works at Siemens."),
    ("Ana lives in Oslo", "Ana lives in a small flat"),
    ("Ana lives in Oslo", "Ana lives with her mother"),
    ("Ana owns a house in Oslo", "Ana lives in Bern"),
    ("Ana owns a house in Oslo", "Ana owns a house in Bern"),
    ("Ana lived in Oslo", "Ana lived in Bern"),
    ("Ana lives in Oslo", "Ana used to live in Bern"),
    ("Ana lives in Oslo", "Ana wants to live in Bern"),
    ("Ana lives in Oslo", "Ana does not live in Bern"),
    ("Ana lives in Oslo", "I left Rome"),
    ("Ana lives in Oslo", "Ben lives in Bern"),
    ("The user lives in Oslo", "The user's sister lives in Bern"),
    ("Ana is based in Oslo", "Ana's company is based in Bern"),
    ("Ana works as a nurse", "Ana works at Acme"),
    ("Ana works at night", "Ana works at Acme"),
    ("Ana lives in a single room", "Ana is married"),
    ("Ana is single", "Ana is single again"),
    ("Ana does not eat meat", "Ana is a vegan"),
    ("Ana lives in Oslo" + " and has a garden" * 30, "Ana lives in Bern"),
]


@pytest.mark.parametrize(("one", "other"), COMPATIBLE)
def test_all_others_coexist(one: str, other: str) -> None:
    assert not exclude(one, other)
    assert not exclude(other, one)
