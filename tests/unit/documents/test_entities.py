"""Who and what documents name (B16, seed 003): reading headers, one entity for one person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hitherto_extraction.documents.entities import MAX_ENTITIES, Mention, mentioned, settle
from hitherto_extraction.storage.document_mentions import EntityChange
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.normalise import fold


def person(name: str, email: str = "") -> Mention:
    return Mention("person", name, email)


def known(
    name: str, email: str = "", aliases: Sequence[str] = (), kind: str = "person"
) -> EntityChange:
    return EntityChange(uuid7(), kind, name, fold(name), list(aliases), email)


def of(content_type: str = "email", author: str = "", **metadata: Any) -> list[Mention]:
    return mentioned("", content_type, author, metadata)


def of_mail(metadata: dict[str, Any]) -> list[Mention]:
    return mentioned("gmail", "", "", metadata)


SARAH = person("Sarah Johnson", "sarah@company.com")


def test_people_of_a_header() -> None:
    for header, found in [
        ("Sarah Johnson <sarah@company.com>", [SARAH]),
        ("  Sarah   Johnson  <Sarah@Company.com> ", [SARAH]),
        ('"Sarah Johnson" <sarah@company.com>', [SARAH]),
        ('"Johnson, Sarah" <s@x.org>', [person("Johnson, Sarah", "s@x.org")]),
        ("sarah@company.com", [person("", "sarah@company.com")]),
        ("s@x.org <s@x.org>", [person("", "s@x.org")]),
        ("Nguyễn Văn An <an@x.vn>", [person("Nguyễn Văn An", "an@x.vn")]),
        (["a@x.org", "B <b@x.org>"], [person("", "a@x.org"), person("B", "b@x.org")]),
        (
            "a@x.org, B <b@x.org>; c@x.org",
            [person("", "a@x.org"), person("B", "b@x.org"), person("", "c@x.org")],
        ),
        ({"displayName": "Bo", "email": "bo@x.org"}, [person("Bo", "bo@x.org")]),
        ([{"emailAddress": "c@x.org"}], [person("", "c@x.org")]),
        ("", []),
        (7.0, []),
        ([None, True, {"x": 1.0}, []], []),
        ("x" * 300, []),
        ("<>", [person("<>")]),
    ]:
        assert of(to=header) == found


def test_every_documented_key_counts() -> None:
    assert of_mail({"from": "A <a@x.org>", "to": "b@x.org", "cc": ["C <c@x.org>"]}) == [
        person("A", "a@x.org"),
        person("", "b@x.org"),
        person("C", "c@x.org"),
    ]
    assert of("task", project="Apollo", assignee="Sarah Johnson", reporter="Bo") == [
        person("Sarah Johnson"),
        person("Bo"),
        Mention("project", "Apollo"),
    ]
    assert of(
        "event", organizer="o@x.org", attendees=["Tom", "Ann, Bo"], location="Room 4, Hà Nội"
    ) == [
        person("", "o@x.org"),
        person("Tom"),
        person("Ann"),
        person("Bo"),
        Mention("place", "Room 4, Hà Nội"),
    ]
    assert of("document", author="Sarah Johnson") == [person("Sarah Johnson")]
    assert of("task", assignee="Johnson, Sarah") == [person("Johnson, Sarah")]


def test_what_is_no_person_or_place() -> None:
    """ "from" of an event may be a time of day; a meeting's link is no place."""
    assert (
        of("event", **{"from": "10:00", "to": "11:00", "location": "https://meet.example/x"}) == []
    )
    assert of("event", **{"from": "Bo <bo@x.org>"}) == [person("Bo", "bo@x.org")]
    assert of("task", other="Sarah", subject="Bo") == []


def test_a_name_is_one_line_once_and_one_of_five_hundred() -> None:
    assert of("task", project="A\x07pollo\n  Two") == [Mention("project", "Apollo Two")]
    assert of(to=["a@x.org"] * 50) == [person("", "a@x.org")]
    assert len(of(to=[f"p{n}@x.org" for n in range(3000)])) == MAX_ENTITIES


@given(
    st.dictionaries(
        st.sampled_from(["from", "to", "cc", "attendees", "project", "location"]),
        st.recursive(
            st.text() | st.floats() | st.none() | st.booleans(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_any_metadata_gives_names_that_can_be_stored(metadata: dict[str, Any]) -> None:
    found = mentioned("gmail", "email", "", metadata)
    for entity in settle(found, [], uuid7):
        assert 1 <= len(entity.name) <= 256
        assert entity.name_key
    keys = [(e.type, e.name_key) for e in settle(found, [], uuid7)]
    assert len(keys) == len(set(keys))


def settled(mentions: list[Mention], *there: EntityChange) -> dict[str, EntityChange]:
    return {entity.name: entity for entity in settle(mentions, there, uuid7)}


def test_another_spelling_from_the_same_address_is_an_alias() -> None:
    sarah = known("Sarah Johnson", "sarah@company.com")
    found = settled([person("S. Johnson", "sarah@company.com")], sarah)
    assert found["Sarah Johnson"].entity_id == sarah.entity_id
    assert found["Sarah Johnson"].aliases == ["S. Johnson"]
    assert found["Sarah Johnson"].changed


def test_whom_memories_mention_gets_the_address() -> None:
    """Merged by the folded name."""
    sarah = known("sarah johnson")
    (entity,) = settle([SARAH], [sarah], uuid7)
    assert (entity.entity_id, entity.email, entity.aliases) == (
        sarah.entity_id,
        "sarah@company.com",
        ["Sarah Johnson"],
    )
    assert not entity.new


def test_the_address_wins_over_the_name() -> None:
    """And the other person of that name keeps it."""
    bo, sarah = known("Bo", "bo@x.org"), known("Sarah Johnson")
    (entity,) = settle([person("Sarah Johnson", "bo@x.org")], [bo, sarah], uuid7)
    assert (entity.entity_id, entity.aliases) == (bo.entity_id, [])


def test_one_person_in_several_fields_is_one() -> None:
    (entity,) = settle([person("Sarah Johnson"), person("", "sarah@company.com"), SARAH], [], uuid7)
    assert (entity.name, entity.email, entity.aliases) == ("Sarah Johnson", "sarah@company.com", [])
    assert set(entity.names) == {"Sarah Johnson", "sarah@company.com"}
    # A project of that name is none.
    both = settle([person("Apollo"), Mention("project", "Apollo")], [], uuid7)
    assert sorted(each.type for each in both) == ["person", "project"]


def test_a_bare_address_gets_its_name_later() -> None:
    bare = known("sarah@company.com", "sarah@company.com")
    (entity,) = settle([SARAH], [bare], uuid7)
    assert (entity.entity_id, entity.name, entity.name_key) == (
        bare.entity_id,
        "Sarah Johnson",
        "sarah johnson",
    )


def test_a_bare_address_is_given_to_whom_it_belongs() -> None:
    bare, sarah = known("sarah@company.com", "sarah@company.com"), known("Sarah Johnson")
    found = settled([SARAH, person("", "sarah@company.com")], bare, sarah)
    assert found["Sarah Johnson"].entity_id == sarah.entity_id
    assert found["Sarah Johnson"].email == "sarah@company.com"
    assert (found["sarah@company.com"].email, found["sarah@company.com"].names) == ("", [])


def test_a_second_address_is_an_alias_and_found_by() -> None:
    sarah = known("Sarah Johnson", "sarah@company.com")
    (entity,) = settle([person("Sarah Johnson", "sj@home.org")], [sarah], uuid7)
    assert (entity.email, entity.aliases) == ("sarah@company.com", ["sj@home.org"])
    for name in ("", "S. J."):
        sarah = known("Sarah Johnson", "", ["sj@home.org"])
        (again,) = settle([person(name, "sj@home.org")], [sarah], uuid7)
        assert again.name == "Sarah Johnson"


def test_nothing_new_changes_nothing() -> None:
    sarah = known("Sarah Johnson", "sarah@company.com", ["S. Johnson"])
    for mention in (SARAH, person("S. Johnson"), person("", "sarah@company.com")):
        (entity,) = settle([mention], [sarah], uuid7)
        assert (entity.entity_id, entity.changed) == (sarah.entity_id, False), mention
