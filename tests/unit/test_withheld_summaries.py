"""Which summaries repeat a memory that may not be shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hitherto_retrieval.withheld import repeating, work_of
from hitherto_shared.models import Profile, Summary

NOW = datetime(2026, 8, 21, tzinfo=UTC)
ANA = Profile("ana", facts={"personal": {"name": "Ana Pereira"}})


def summary(text: str, *withheld: str, title: str = "Talk", followup: str = "") -> Summary:
    return Summary(
        "c1",
        "ana",
        title,
        text,
        "resolved",
        3,
        NOW,
        NOW,
        followup_suggestions=[followup],
        withheld=withheld,
        kept={},
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (summary("Ana talked about her peanut allergy."), False),
        (summary("Ana talked about her peanut allergy.", "Ana is allergic to peanuts"), True),
        (summary("They compared flights.", "Ana is allergic to peanuts"), False),
        (summary("They went to Hue.", "The user goes to Hue every May"), True),
        (summary("The user asked about rice.", "The user smokes"), False),
        (summary("Ana fixed her bicycle.", "Ana smokes"), False),
        (summary("Ana Pereira fixed her bicycle.", "Ana Pereira smokes"), False),
        (summary("Ana fixed her bicycle.", "Ana"), True),
        (summary("A week.", "User divorces Minh", followup="How is the divorce from Minh?"), True),
        (summary("A week.", "User divorces Minh", title="Divorce from Minh"), True),
        (summary("用户喜欢吃花生酱。", "用户喜欢吃花生"), True),
        (summary("用户在学骑车。", "喜欢吃花生"), False),
        (summary("Nói chuyện về dị ứng đậu phộng.", "Người dùng dị ứng đậu phộng"), True),
        # The word for the user is in most summaries, and so are articles.
        (summary("Người dùng hỏi về cơm.", "Người dùng hút thuốc"), False),
        (summary("Người dùng muốn bỏ hút thuốc.", "Người dùng hút thuốc"), True),
        (summary("El usuario preguntó por el arroz.", "El usuario fuma"), False),
        (summary("El usuario dijo que fuma.", "El usuario fuma"), True),
        (summary("Der Nutzer fragte nach dem Reis.", "Der Nutzer raucht"), False),
        (summary("L'utilisateur a demandé du riz.", "L'utilisateur fume"), False),
        (summary("Пользователь спросил о рисе.", "Пользователь курит"), False),
        (summary("سأل المستخدم عن الأرز.", "المستخدم يدخن"), False),
        (summary("المستخدم يدخن كثيرا.", "المستخدم يدخن"), True),
        (summary("用户问米饭。", "用户抽烟"), False),
        (summary("ユーザーは米について聞いた。", "ユーザーは喫煙者"), False),
        # Function words of one language are words and names in others.
        (summary("They said that they might die soon.", "User wants to die"), True),
        (summary("The user got into MIT.", "User studies at MIT"), True),
        (summary("Su met the user in the park.", "User dates Su"), True),
        (summary("The user shares a flat with Des.", "User's partner is Des"), True),
        (summary("The user talked about Dung.", "User dates Dung"), True),
        (summary("Người dùng hỏi về da.", "Người dùng xem da"), True),
        (summary("Người dùng lo cho mẹ.", "Người dùng lo"), True),
        (summary("Der Nutzer spricht über Su.", "Der Nutzer liebt Su"), True),
        (summary("Der Nutzer war am MIT.", "Der Nutzer studiert am MIT"), True),
        (summary("El usuario habló de Su.", "El usuario ama a Su"), True),
        (summary("Der Nutzer fragt nach der Uhrzeit.", "Der Nutzer raucht"), False),
        (summary("El usuario habló de Das.", "El usuario ama a Das"), True),
        (summary("Der Nutzer fragt nach der Uhrzeit.", "Der Nutzer ist mit der Uni fertig"), False),
        (summary("El usuario pregunta por la paella.", "La usuaria fuma en la cama"), False),
        (summary("O usuário perguntou sobre o arroz.", "O usuário não fuma"), False),
        (summary("Le riz de l'utilisateur est cuit.", "L'utilisateur est le père de Marc"), False),
        (summary("L'utente chiede del riso.", "L'utente non fuma"), False),
        # Even if nothing else is said, the word for the user is not.
        (summary("Người dùng hỏi về cơm.", "Người dùng lo"), False),
        (summary("Der Nutzer fragte nach dem Reis.", "Nutzer: MIT"), False),
        (summary("Der Nutzer war am MIT.", "Nutzer: MIT"), True),
        (summary("Ana asked about rice.", "User is Ana"), True),
        (summary("They compared flights.", ""), True),
        (summary("They compared flights.", *(f"secret {n}" for n in range(50))), False),
        (summary("They compared flights.", *(f"secret {n}" for n in range(51))), True),
    ],
)
def test_a_summary_repeats_half_of_the_words(said: Summary, *, expected: bool) -> None:
    assert (repeating([said], ANA) == {"c1"}) is expected
    # The verdict is kept: nothing is read again.
    assert work_of([said]) == 0
    assert (repeating([said], ANA) == {"c1"}) is expected


def test_without_a_profile_the_name_is_a_word() -> None:
    said = summary("Ana fixed her bicycle.", "Ana smokes")
    assert work_of([said]) > 0
    assert repeating([said], None) == {"c1"}
