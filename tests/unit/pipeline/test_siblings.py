"""Statements with other words in one frame stay apart, and paraphrases meet, at equal vectors."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import combinations
from uuid import UUID

import pytest

from hitherto_extraction.pipeline.dedupe import Neighbour, find_duplicate
from hitherto_extraction.pipeline.guards import differences, same_statement

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

SIBLINGS = [
    ("The user is allergic to peanuts", "The user is allergic to cashews"),
    ("The user is allergic to peanuts", "The user is allergic to cow's milk protein"),
    ("The user has a peanut allergy", "The user is allergic to shellfish"),
    ("User takes ibuprofen for headaches", "User takes aspirin for headaches"),
    ("User takes aspirin for headaches", "For headaches the user takes ibuprofen"),
    ("The user takes 5 mg of warfarin", "The user takes 5 mg of lisinopril"),
    ("User plays the violin in an orchestra", "User plays the cello in an orchestra"),
    ("User is a nurse", "User is a baker"),
    ("User wants to learn pottery", "User wants to learn carpentry"),
    ("User takes ibuprofen for headaches", "User plays the cello in an orchestra"),
    ("User reads long historical crime novels", "User reads thin modern love poems"),
    ("Caroline bakes sourdough bread on Sundays", "Caroline bakes apple cake on Sundays"),
    ("The backup runs on the primary server", "The backup runs on the standby server"),
    ("Deploys need two approvals from security", "Deploys need two approvals from finance"),
    ("User's landlord plays chess", "User's landlord plays poker"),
    ("Người dùng thích ăn phở bò", "Người dùng thích ăn phở gà"),
    ("Nguoi dung thich an pho bo", "Nguoi dung thich an pho ga"),
    ("Người dùng dị ứng với đậu phộng", "Người dùng dị ứng với hạt điều"),
    ("Người dùng chơi đàn tranh", "Người dùng chơi đàn bầu"),
    ("El usuario es alérgico a los cacahuetes", "El usuario es alérgico a los anacardos"),
    ("L'utilisateur joue du violon", "L'utilisateur joue du piano"),
    ("Der Benutzer spielt Geige", "Der Benutzer spielt Flöte"),
    ("Пользователь играет на скрипке", "Пользователь играет на гитаре"),
    ("Ο χρήστης παίζει βιολί", "Ο χρήστης παίζει πιάνο"),
    ("用户对花生过敏", "用户对腰果过敏"),
    ("ユーザーはバイオリンを弾く", "ユーザーはチェロを弾く"),
    ("사용자는 땅콩 알레르기가 있다", "사용자는 우유 알레르기가 있다"),
    ("ผู้ใช้แพ้ถั่วลิสง", "ผู้ใช้แพ้อาหารทะเล"),
    ("المستخدم يعزف على الكمان", "المستخدم يعزف على العود"),
    ("המשתמש מנגן בכינור", "המשתמש מנגן בפסנתר"),
    ("उपयोगकर्ता को मूंगफली से एलर्जी है", "उपयोगकर्ता को काजू से एलर्जी है"),
]

PARAPHRASES = [
    ("The user has a peanut allergy", "The user is allergic to peanuts"),
    ("User likes jazz a lot", "User likes jazz"),
    ("User likes jazz a lot", "User loves jazz very much"),
    ("User plays the violin in an orchestra", "The user is playing violin in an orchestra."),
    ("User takes ibuprofen for headaches", "For headaches, the user takes ibuprofen"),
    ("User has two kids", "The user has 2 children"),
    ("User works as a nurse", "The user is employed as a nurse"),
    ("User lives near a lake", "The user resides near a lake"),
    ("User taught maths for years", "User teaches maths for years"),
    ("User does woodworking at home", "User does wood working at home"),
    ("User owns a tabby cat", "User has a tabby cat"),
    ("User prefers brief answers", "The user likes short answers"),
    ("Người dùng bị dị ứng đậu phộng", "Người dùng dị ứng với đậu phộng"),
    ("Người dùng thích ăn phở bò", "Nguoi dung thich an pho bo."),
    ("El usuario toca el violín", "El usuario toca mucho el violín"),
    ("Пользователь играет на скрипке", "Пользователь очень любит играть на скрипке"),
    ("用户对花生过敏", "用户对花生很过敏。"),
    ("المستخدم يحب القهوة", "المستخدم يُحبّ القهوة."),
]


def known(number: int, content: str) -> Neighbour:
    return Neighbour(UUID(int=number), "fact", content, "active", 1.0, NOON)


@pytest.mark.parametrize(("one", "other"), SIBLINGS)
def test_another_word_in_a_slot_is_another_statement(one: str, other: str) -> None:
    assert find_duplicate("fact", one, [known(1, other)], 0.85) is None
    assert find_duplicate("fact", other, [known(1, one)], 0.85) is None


@pytest.mark.parametrize(("one", "other"), PARAPHRASES)
def test_a_paraphrase_is_the_same_statement(one: str, other: str) -> None:
    assert differences(one, other) == []
    assert find_duplicate("fact", other, [known(1, one)], 0.85) is not None
    assert find_duplicate("fact", one, [known(1, other)], 0.85) is not None


def test_the_words_of_both_sides_are_named() -> None:
    assert differences("User has a red kayak", "User has a red canoe") == ["slot: kayak / canoe"]


def test_of_many_siblings_no_two_are_one() -> None:
    things = "peanuts cashews almonds pollen dust latex penicillin shellfish sesame soy".split()
    facts = [f"The user is allergic to {thing}" for thing in things]
    assert not [pair for pair in combinations(facts, 2) if same_statement(*pair)]
