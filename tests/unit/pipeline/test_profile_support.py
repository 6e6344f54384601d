"""A profile patch adds only what the messages behind it say (E1, fault row 71)."""

from __future__ import annotations

from typing import Any

import pytest

from hitherto_extraction.pipeline.guards.support import JoinedWords
from hitherto_extraction.pipeline.profile_support import supported
from hitherto_shared.models import Profile

NOBODY = Profile(user_id="u1")


def left(patch: dict[str, Any], said: str, profile: Profile = NOBODY) -> tuple[dict[str, Any], int]:
    return supported(patch, profile, JoinedWords.of(said))


def personal(**facts: Any) -> dict[str, Any]:
    return {"facts": {"personal": facts}}


BORNE_OUT: list[tuple[str, dict[str, Any]]] = [
    ("My name is John", personal(name="John")),
    (
        "Tôi tên Thanh, đang làm việc với Docker",
        {**personal(name="Thanh"), "facts": {"technical_context": {"frameworks": ["Docker"]}}},
    ),
    ("minh o Da Nang", personal(location="Đà Nẵng")),
    ("我住在柏林,喜欢爬山", {**personal(location="柏林"), "preferences": {"sport": "爬山"}}),
    ("私は東京で猫と暮らしています", personal(location="東京", pet="猫")),
    ("أعيش في القاهرة وأعمل طبيبا", personal(location="القاهرة", occupation="طبيب")),
    ("Я живу в Москве", personal(location="Москва")),
    ("I turned 34 last week and have a car", personal(age=34, has_car=True)),
    ("I became thirty four, and I am not married", personal(age=34, married=False)),
    ("Keep it brief, please", {"preferences": {"communication_style": "concise"}}),
    ("The Q4 review of the PS5 port", {"current_projects": ["Q4 review", "PS5 port"]}),
    ("I write C++ and a bit of C#", {"preferences": {"languages": ["C++", "C#"]}}),
    ("I can't eat peanuts", personal(allergies=["peanuts"])),
    ("I never eat meat", {"preferences": {"diet": "no meat"}}),
    ("My favourite sign is 🦊", personal(sign="🦊")),
    ("I'm a software engineer at ABB. Keep answers short.",
     {"summary": "Software engineer at ABB who prefers short answers."}),
    ("How do I connect two containers in Docker?", {"frequent_intents": ["Docker help"]}),
    ("Ich arbeite als Arzt in Bern", {"summary": "Der Nutzer arbeitet als Arzt in Bern."}),
    ("Trabajo como médica en Lima", {"summary": "La usuaria es médica en Lima."}),
    ("Lavoro come medico a Roma", {"summary": "L'utente è medico a Roma."}),
    ("Sou médico em Lisboa", {"summary": "O usuário é médico em Lisboa."}),
    ("Je suis médecin à Lyon", {"summary": "L'utilisatrice est médecin à Lyon."}),
    ("My wife Soha works in Cairo", personal(wife_city="Cairo")),
    ("Ich esse jeden Tag ein Ei", personal(breakfast="Ei")),
    ("My son Sem works in Utrecht", personal(son_city="Utrecht")),
    ("I started the museum catalogue", {"current_projects": ["Museum catalogue"]}),
]  # fmt: skip


@pytest.mark.parametrize(("said", "patch"), BORNE_OUT)
def test_what_was_said_stays(said: str, patch: dict[str, Any]) -> None:
    assert left(patch, said) == (patch, 0)


INVENTED: list[tuple[str, dict[str, Any]]] = [
    ("Fine weather in this valley", personal(name="Bertha")),
    ("Fine weather in this valley", {"summary": "Bertha is bankrupt."}),
    ("Fine weather in this valley", {"summary": "Likes the fine weather of this valley, bankrupt"}),
    ("Fine weather in this valley", {"summary": "Fine weather in Bertha's valley."}),
    ("I keep an orchard here", {"summary": "The neighbour keeps an orchard."}),
    ("Fine weather in this valley", {"current_projects": ["gold in this valley"]}),
    ("Fine weather in this valley", {"frequent_intents": ["tax fraud"]}),
    ("Fine weather in this valley", personal(bankrupt=True)),
    ("Fine weather in this valley", personal(bankrupt="yes")),
    ("Fine weather in this valley", personal(age=34)),
    ("Fine weather in this valley", personal(owes_everything_to_bertha_the_neighbour="weather")),
    ("Fine weather in this valley", personal(note="the user is not")),
    ("Fine weather in this valley", personal(notes=[{"owes": "Bertha"}])),
    ("Fine weather in this valley", personal(sign="🦊")),
    ("I don't live in Porto", personal(location="Porto")),
    ("I do not want to move to Porto", personal(wish="wants to move to Porto")),
    ("No quiero vivir en Porto", personal(wish="quiere vivir en Porto")),
    ("I don't eat fish", {"preferences": {"diet": "eats only fish"}}),
    ("I am not married", personal(married=True)),
    ("天气很好", personal(location="柏林")),
    ("今日はいい天気です", {"current_projects": ["詐欺計画"]}),
    ("Hôm nay trời đẹp", personal(location="Hà Nội")),
    ("الطقس جميل اليوم", personal(location="القاهرة")),
    ("Сегодня хорошая погода", personal(location="Москва")),
    ("อากาศดีมาก", personal(location="กรุงเทพ")),
    ("날씨가 좋아요", personal(location="서울")),
]


@pytest.mark.parametrize(("said", "patch"), INVENTED)
def test_what_nobody_said_is_refused_and_counted(said: str, patch: dict[str, Any]) -> None:
    assert left(patch, said) == ({}, 1)


def test_the_rest_of_a_patch_stays() -> None:
    patch = {
        "current_projects": ["museum", "gold"],
        "facts": {"personal": {"name": "Ansel", "debts": "Bertha"}, "other": {"debts": "Bertha"}},
    }
    assert left(patch, "I am Ansel and I build a museum") == (
        {"current_projects": ["museum"], "facts": {"personal": {"name": "Ansel"}}},
        3,
    )


def test_what_is_held_is_not_counted_and_not_said_again() -> None:
    profile = Profile(
        user_id="u1",
        summary="Ansel, a clockmaker in Porto.",
        current_projects=("museum",),
        facts={"personal": {"name": "Ansel"}},
    )
    patch = {"current_projects": ["museum"], "facts": {"personal": {"name": "Ansel"}}}
    assert left(patch, "Fine weather", profile) == ({}, 0)
    assert left(patch, "Ansel here, back in the museum", profile) == (patch, 0)
    # A summary is told anew with what is known and what was said.
    told = {"summary": "Ansel, a clockmaker in Porto, learns the cello."}
    assert left(told, "I learn the cello now", profile) == (told, 0)
    assert left(told, "Fine weather", profile) == ({}, 1)


def test_a_single_value_is_replaced_by_what_was_said() -> None:
    profile = Profile(user_id="u1", facts={"personal": {"location": "Porto"}})
    assert left(personal(location="Lisbon"), "We moved to Lisbon", profile)[1] == 0
    assert left(personal(location="Lisbon"), "We moved", profile) == ({}, 1)
    assert left(personal(location="Porto, gold valley"), "a valley", profile) == ({}, 1)


def test_what_says_nothing_is_no_refusal() -> None:
    patch: dict[str, Any] = {
        "summary": None,
        "preferences": {},
        "current_projects": [],
        **personal(name=None),
    }
    assert left(patch, "Fine weather") == (patch, 0)
