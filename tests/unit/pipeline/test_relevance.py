"""A memory ends only where messages bear on it (B12, B13, fault rows 29 and 71)."""

from __future__ import annotations

import pytest

from hitherto_extraction.pipeline.guards.relevance import ends, reaches
from hitherto_extraction.pipeline.guards.support import JoinedWords


def ended(old: str, said: str, successor: str | None) -> bool:
    return ends(old, [said], JoinedWords.of(said), successor)


def reached(goal: str, said: str, successor: str | None = None) -> bool:
    return reaches(goal, [said], JoinedWords.of(said), successor)


TRUE = [
    # old, what was said, what holds now
    ("User lives in Lisbon.", "I just moved to Ghent!", "User lives in Ghent."),
    ("User lives in Lisbon.", "I just moved to Ghent!", None),
    ("The user currently resides in Lisbon", "We relocated to Ghent last month", None),
    ("Ana lives in Lisbon", "I'm in Berlin these days", "Ana lives in Berlin"),
    ("Người dùng sống ở Hà Nội.", "Mình mới chuyển vào Huế tuần trước", "Người dùng sống ở Huế."),
    ("Người dùng sống ở Hà Nội.", "Mình mới chuyển vào Huế tuần trước", None),
    ("User lives in Hanoi", "Tôi đang sống ở Huế", "User lives in Huế"),
    ("User's name is Ana.", "Call me Inês from now on", "User's name is Inês."),
    ("User works at Siemens.", "I work at Maersk", None),
    ("User works at Siemens.", "I started at Maersk in May", "User works at Maersk."),
    ("User works as a nurse in Leeds.", "I retired last month", "User is retired."),
    ("User works as a nurse in Leeds.", "I retired last month", None),
    ("Người dùng làm việc ở FPT.", "Mình nghỉ FPT rồi", None),
    ("User's favourite band is Blur.", "My favorite band is Pulp",
     "User's favourite band is Pulp."),
    ("User loves coffee.", "I don't like coffee anymore", None),
    ("Người dùng thích cà phê.", "Tôi không thích cà phê nữa", None),
    ("User prefers detailed answers.", "Please keep your answers short.", None),
    ("User is vegetarian.", "I'm vegan", "User is vegan."),
    ("User is vegetarian.", "I eat meat again, by the way", None),
    ("User is single.", "We got married in June!", None),
    ("Người dùng độc thân.", "Em vừa kết hôn tháng trước", "Người dùng đã kết hôn."),
    ("The user has 2 children.", "Our third child was born!", "The user has 3 children."),
    ("The user is 30 years old.", "I turned 31 today", "The user is 31 years old."),
    ("The user drives a Volvo.", "I sold the Volvo", None),
    ("The user drives a Volvo.", "I have a Tesla now", "The user drives a Tesla."),
    ("The user drinks two cups of coffee every morning before work", "I stopped drinking coffee",
     None),
    ("Ana takes zolpidem", "I stopped the zolpidem, it made me ill", "Ana takes melatonin"),
    ("Ana takes zolpidem 10 mg at night", "I stopped that zolpidem", "Ana takes melatonin"),
    ("The user drives a red Volvo to the office every day", "I sold the Volvo", None),
    ("Ana takes zolpidem", "Now I take melatonin", "Ana takes melatonin"),
    ("The user uses Vim.", "I switched to Emacs", "The user uses Emacs."),
    ("The user plays the violin", "I gave up the violin for the cello", None),
    ("The user does not eat meat", "I eat meat now", None),
    ("The user lives in Lisbon", "The user moved the home and the office to Porto", None),
    ("用户住在柏林", "我搬到巴黎了", "用户住在巴黎"),
    ("用户住在柏林", "我搬到巴黎了", None),
    ("用户喜欢咖啡", "我不喜欢咖啡", None),
    ("ユーザーは東京に住んでいる", "大阪に引っ越しました", "ユーザーは大阪に住んでいる"),
    ("사용자는 서울에 살고 있다", "부산으로 이사했어요", "사용자는 부산에 살고 있다"),
    ("Пользователь живёт в Москве", "Я переехал в Казань", "Пользователь живёт в Казани"),
    ("المستخدم يعيش في القاهرة", "انتقلت إلى دبي", "المستخدم يعيش في دبي"),
    ("El usuario vive en Madrid", "Me mudé a Sevilla", "El usuario vive en Sevilla"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "said", "successor"), TRUE)
def test_b12_what_the_messages_tell_ends(old: str, said: str, successor: str | None) -> None:
    assert ended(old, said, successor)


SUNDIAL = "The user keeps a sundial for Ilse since 1960."
WEATHER = "Fine weather again in this valley."
FALSE = [
    (SUNDIAL, WEATHER, None),
    (SUNDIAL, WEATHER, "Everything before this was wrong."),
    (SUNDIAL, WEATHER, "The user keeps the weather fine."),
    (SUNDIAL, WEATHER, "The user keeps nothing for Ilse since 1960."),
    (SUNDIAL, WEATHER, "The user does not keep a sundial for Ilse since 1960."),
    (SUNDIAL, WEATHER, "The user keeps a clock for Ilse since 1960."),
    (SUNDIAL, "Ilse says hello. There is no fine weather.", None),
    (SUNDIAL, "I polished the sundial for Ilse today.", None),
    (SUNDIAL, "I moved to Ghent!", "The user lives in Ghent."),
    ("User lives in Lisbon.", WEATHER, None),
    ("User lives in Lisbon.", WEATHER, "User lives in Ghent."),
    ("User lives in Lisbon.", "I live in Lisbon", None),
    ("User lives in Lisbon.", "I do not eat meat", None),
    ("User lives in Lisbon.", "I work at Maersk", "User works at Maersk."),
    ("User is allergic to peanuts.", "I live in Ghent now", "User lives in Ghent."),
    ("The user drinks tea every morning.", "I play tennis in the evening", None),
    ("The user keeps bees.", "I do not eat meat, but I keep bees", None),
    ("Người dùng sống ở Hà Nội.", "Hôm nay trời đẹp quá", "Người dùng sống ở Huế."),
    ("Người dùng thích cà phê.", "Tôi không thích trời mưa", None),
    ("用户住在柏林", "今天天气很好", None),
    ("用户住在柏林", "今天天气很好", "用户住在巴黎"),
    ("Пользователь живёт в Москве", "Сегодня хорошая погода", None),
    ("المستخدم يعيش في القاهرة", "الطقس جميل اليوم", None),
]


@pytest.mark.parametrize(("old", "said", "successor"), FALSE)
def test_what_the_messages_do_not_tell_ends_nothing(
    old: str, said: str, successor: str | None
) -> None:
    assert not ended(old, said, successor)


def test_what_only_points_ends_what_the_conversation_is_about() -> None:
    old, said = "Ana takes zolpidem", "I stopped that"
    asked = ["Do you still take the zolpidem?"]
    assert ends(old, [said], JoinedWords.of(said), None, asked)
    assert not ends(old, [said], JoinedWords.of(said), None, ["Fine weather!"])
    assert not ends(old, [said], JoinedWords.of(said), None)
    assert not ends(old, ["I like it"], JoinedWords.of("I like it"), None, asked)


@pytest.mark.parametrize(
    "told",
    [
        "I did it!",
        "I achieved it",
        "I reached my goal",
        "Lo logré",
        "Ich habe es geschafft",
        "Em làm được rồi",
        "У меня получилось",
    ],
)
def test_b13_what_only_points_reaches_what_the_conversation_is_about(told: str) -> None:
    goal = "Ana wants to run a marathon"
    assert reaches(goal, [told], JoinedWords.of(told), None, ["How was the marathon?"])
    assert not reaches(goal, [told], JoinedWords.of(told), None, ["How was the party?"])
    assert not reaches(goal, [told], JoinedWords.of(told), None)
    assert not reaches(goal, ["not done"], JoinedWords.of("not done"), None, ["The marathon?"])


@pytest.mark.parametrize(
    ("goal", "said", "successor"),
    [
        ("User wants to run a marathon in spring.", "I finally ran the marathon yesterday!", None),
        ("Ana wants to run a marathon", "I ran it, 42 km", "Ana ran a marathon of 42 km"),
        ("User wants to pass the driving test.", "I passed my driving test", None),
        ("User is planning to move to Tallinn.", "I moved to Tallinn", None),
        ("Người dùng muốn thi đậu JLPT N2.", "Hôm qua em đã đậu kỳ thi JLPT N2 rồi", None),
        ("Mục tiêu của người dùng là hoàn thành luận văn.", "Mình hoàn thành luận văn rồi", None),
        ("The user wants to stop smoking", "I don't smoke anymore, I stopped", None),
        ("The user wants to stop smoking", "I don't smoke anymore", None),
        ("The user wants to quit smoking", "I no longer smoke", None),
        ("Người dùng muốn bỏ thuốc lá.", "Tôi không hút thuốc lá nữa", None),
        ("Ana wants to get a driving licence", "I got my licence today", None),
        ("المستخدم يريد أن يركض ماراثون", "ركضت الماراثون", None),
        ("用户想学习西班牙语", "我学会西班牙语了", None),
    ],
)
def test_b13_what_the_messages_tell_is_reached(goal: str, said: str, successor: str | None) -> None:
    assert reached(goal, said, successor)


@pytest.mark.parametrize(
    ("goal", "said", "successor"),
    [
        ("User wants to run a marathon in spring.", WEATHER, None),
        ("User wants to run a marathon in spring.", WEATHER, "User ran a marathon."),
        ("User wants to run a marathon in spring.", "I did not run the marathon", None),
        ("User wants to run a marathon in spring.", "I did it", "User ran a marathon."),
        ("The user wants to stop smoking", "I did not stop smoking", None),
        ("The user wants to stop smoking", "I could not quit smoking", None),
        ("Người dùng muốn bỏ thuốc lá.", "Tôi không bỏ thuốc lá được", None),
        ("Người dùng muốn thi đậu JLPT N2.", "Hôm nay trời đẹp quá", None),
    ],
)
def test_what_the_messages_do_not_tell_is_not_reached(
    goal: str, said: str, successor: str | None
) -> None:
    assert not reached(goal, said, successor)
