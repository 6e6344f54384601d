"""The budget: never exceeded, in real tokens too, whole lines only (D2, contract)."""

from __future__ import annotations

import base64
import random
import re
import string
import uuid
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
import splintr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hitherto_retrieval.render.block import TEMPLATES
from hitherto_retrieval.render.context import Block, PromptContext
from hitherto_retrieval.render.tokens import ENCODINGS, LineCounts, counter, estimated_tokens
from hitherto_shared.models import Profile
from tests.unit.render_samples import (
    COUNT,
    FENCE_ID,
    SAID,
    entity,
    full_context,
    memory,
    nine_line_context,
    rendered,
    summary,
)

HEADING = re.compile(
    r"## .*:|--- .* ---|\[ABOUT THE USER\]|Things to remember:|Related to .*:|Known entities:"
    r"|Recent conversations:"
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_budget_is_kept_and_every_fence_closed(template: str) -> None:
    context = full_context()
    whole = set(rendered(context, template, 4000).text.splitlines()[1:-1])
    sizes: list[int] = []
    for budget in range(601):
        block = rendered(context, template, budget)
        assert block.tokens == COUNT(block.text) <= budget
        sizes.append(block.tokens)
        if not block.text:
            assert block == Block()
            continue
        lines = block.text.splitlines()
        assert lines[0].startswith(f"<<<hitherto:memory {FENCE_ID}: ")
        assert lines[-1] == f"<<<end hitherto:memory {FENCE_ID}>>>"
        assert block.text.count("<<<") == block.text.count(">>>") == 2
        assert block.text.count(FENCE_ID) == 2
        assert set(lines[1:-1]) <= whole | {""}
        for heading, after in pairwise(lines):
            if HEADING.fullmatch(heading) and heading != "[ABOUT THE USER]":
                assert after
                assert HEADING.fullmatch(after) is None
                assert after != lines[-1]
        assert ("[ABOUT THE USER]" in lines) == ("[END ABOUT THE USER]" in lines)
    assert sizes[0] == 0
    assert sizes[-1] == rendered(context, template, 4000).tokens > 300


def test_twenty_memories_cost_at_most_500_tokens() -> None:
    """B14, with memories of document 002's length."""
    texts = [one.content for one in nine_line_context().memories] * 3
    context = PromptContext(memories=[memory(n, "fact", texts[n]) for n in range(20)])
    block = rendered(context, "about_the_user", 500)
    assert len(block.memory_ids) == 20
    assert block.tokens <= 500


def test_a_huge_profile_leaves_room_for_the_rest() -> None:
    facts = {f"key {n}": "value " * 10 for n in range(500)}
    context = PromptContext(
        profile=Profile("u1", summary="Who they are.", facts=facts),
        memories=[memory(n, "fact", f"Memory {n}.") for n in range(20)],
        conversations=[summary("c1", "Title", "Text.")],
        entities=[entity(1, "Sarah", "person")],
    )
    block = rendered(context, "about_the_user", 1000)
    assert (len(block.memory_ids), block.conversation_ids) == (20, ("c1",))
    assert block.entity_ids
    assert "Summary: Who they are." in block.text
    assert block.tokens > 950


def test_one_over_long_memory_is_shortened_and_does_not_take_everything() -> None:
    long_text = "Đoạn rất dài. " * 600
    others = [memory(n, "fact", f"Memory {n}.") for n in range(2, 12)]
    block = rendered(
        PromptContext(memories=[memory(1, "fact", long_text), *others]), "what_you_know", 1000
    )
    assert len(block.memory_ids) == 11
    first = next(line for line in block.text.splitlines() if "Đoạn" in line)
    assert first.endswith("…")
    assert 500 < len(first.encode()) <= 800
    assert [line for line in block.text.splitlines() if line.endswith("…")] == [first]


def test_ordinary_lines_are_never_cut() -> None:
    context = PromptContext(memories=[memory(n, "fact", "word " * 36) for n in range(9)])
    for budget in range(50, 400, 7):
        assert "…" not in rendered(context, "about_the_user", budget).text, budget
    block = rendered(PromptContext(memories=[memory(1, "fact", "word " * 400)]), "markdown", 150)
    assert "…" in block.text
    assert 100 < block.tokens <= 150


@pytest.mark.parametrize(
    ("lengths", "budgets"),
    [((4, 120, 4, 150, 4, 180), range(60, 800, 7)), ((700,) * 5, range(2_900, 3_600, 23))],
)
def test_one_line_is_cut_and_nothing_that_comes_later_takes_its_place(
    lengths: tuple[int, ...], budgets: range
) -> None:
    known = [memory(n, "fact", f"{n} " + "word " * many) for n, many in enumerate(lengths)]
    ids = tuple(each.memory_id for each in known)
    talk = summary("c1", "Title", "word " * (lengths[-1] - 20))
    context = PromptContext(memories=known, conversations=[talk])
    for template in TEMPLATES:
        for budget in budgets:
            block = rendered(context, template, budget)
            assert block.memory_ids == ids[: len(block.memory_ids)]
            cut = re.findall(r"(\d) [word ]*…", block.text)
            assert cut in ([], [str(len(block.memory_ids) - 1)]), (template, budget)
            assert block.text.count("…") <= 1, (template, budget)
    for budget in budgets:
        twice = "{{memories}}\n{{memories}}"
        block = rendered(context, "custom", budget, twice)
        assert block.tokens <= budget
        assert block.tokens > 0.5 * budget or budget < 150, budget


def test_no_line_tells_only_what_stands_around_a_memory() -> None:
    doubt = {"since": SAID.isoformat(), "reason": "she may have moved away since then " * 5}
    known = [memory(1, "fact", "word " * 400, origin="assistant", doubt=doubt, valid_to=SAID)]
    context = PromptContext(memories=known, today=SAID.date())
    for template in TEMPLATES:
        for budget in range(60, 240):
            block = rendered(context, template, budget)
            assert ("word" in block.text) == bool(block.memory_ids)


def test_instructions_go_when_there_is_no_room_and_the_first_line_tells() -> None:
    context = nine_line_context()
    large = rendered(context, "markdown", 4000).text
    assert large.count("## Instructions:\n") == 1
    assert "instructions only under" in large.splitlines()[0]
    small = rendered(context, "markdown", 100).text
    assert "1. [preference]" in small
    assert "## Instructions:" not in small


# `max_tokens` holds in real tokens: with a vocabulary, and by the estimate without one (D2).


@cache
def vocabularies() -> list[Callable[[str], list[int]]]:
    return [splintr.Tokenizer.from_pretrained(name).encode_ordinary for name in ENCODINGS]


PROSE = [
    "The user moved to Glasgow in June, prefers short answers and eats no hazelnuts.",
    "Die Benutzerin wohnt in Düsseldorf und schließt Rechtsschutzversicherungen ab.",
    "Käyttäjä asuu Helsingissä ja haluaa lyhyitä vastauksia, koska hän lukee ne työmatkalla.",
    "A felhasználó Budapesten él, és a rövid válaszokat kedveli, mert telefonon olvassa őket.",
    "Mtumiaji anaishi Nairobi na anapendelea majibu mafupi kwa sababu anayasoma kwenye simu.",
    "Kullanıcı İstanbul'da yaşıyor ve kısa yanıtları tercih ediyor çünkü telefonda okuyor.",
    "Użytkownik mieszka w Krakowie i woli krótkie odpowiedzi, ponieważ czyta je w tramwaju.",
    "Người dùng sống ở Hà Nội và thích câu trả lời ngắn gọn vì thường đọc trên điện thoại.",
    "Пользователь живёт в Санкт-Петербурге и предпочитает короткие ответы.",
    "Ο χρήστης μένει στην Αθήνα και προτιμά σύντομες απαντήσεις.",
    "המשתמש גר בתל אביב ומעדיף תשובות קצרות כי הוא קורא אותן בטלפון.",
    "يعيش المستخدم في القاهرة ويفضل الإجابات القصيرة.",
    "उपयोगकर्ता दिल्ली में रहता है और छोटे उत्तर पसंद करता है।",
    "ผู้ใช้อาศัยอยู่ในกรุงเทพฯ และชอบคำตอบสั้นๆ",
    "მომხმარებელი ცხოვრობს თბილისში და ურჩევნია მოკლე პასუხები.",
    "ተጠቃሚው በአዲስ አበባ ይኖራል እና አጭር መልሶችን ይመርጣል።",
    "用户住在上海,喜欢在早上喝绿茶,并且更喜欢简短的回答。",
    "ユーザーは東京に住んでいて、毎朝コーヒーを飲むのが好きです。",
    "사용자는 서울에 살고 있으며 매일 아침 커피를 마십니다.",
    "👩‍🔬🎉🇻🇳😀🏽 👨‍👩‍👧‍👦 ✈️ 1️⃣",
]


def real_tokens(text: str) -> int:
    """The count of the vocabulary that needs more."""
    return max(len(encode(text)) for encode in vocabularies())


def test_the_estimate_covers_prose() -> None:
    for text in PROSE:
        assert real_tokens(text) <= estimated_tokens(text) <= 2.6 * real_tokens(text)


IDS: dict[str, Callable[[random.Random], str]] = {
    "uuid": lambda draw: str(uuid.UUID(int=draw.getrandbits(128))),
    "hex": lambda draw: draw.randbytes(20).hex(),
    "base64": lambda draw: base64.b64encode(draw.randbytes(33)).decode(),
    "base32": lambda draw: base64.b32encode(draw.randbytes(20)).decode(),
    "number": lambda draw: str(draw.randrange(10 ** draw.randint(1, 16))),
    "phone": lambda draw: (
        f"+{draw.randint(1, 99)} {draw.randint(10, 999)} {draw.randint(1000, 9999)}"
    ),
    "key": lambda draw: "sk-" + "".join(draw.choices(string.ascii_letters + string.digits, k=40)),
    "lower case": lambda draw: "".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 14))),
    "provenance": lambda draw: (
        f"- [FACT] x [user, 2026-0{draw.randint(1, 9)}-{draw.randint(10, 28)}, "
        f"{uuid.UUID(int=draw.getrandbits(128))}]"
    ),
}


def test_the_estimate_covers_ids_and_numbers() -> None:
    for kind, made in IDS.items():
        draw = random.Random(kind)
        for separator in (" ", "\n", ", "):
            text = separator.join(made(draw) for _ in range(100))
            assert real_tokens(text) <= estimated_tokens(text) <= 2 * real_tokens(text), kind


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
@example("Rcak")
def test_the_estimate_covers_any_text_but_for_invented_words(text: str) -> None:
    invented = sum(len(word) // 3 for word in re.findall("[A-Za-z]+", text))
    assert real_tokens(text) <= estimated_tokens(text) + invented


@pytest.mark.parametrize("encoding", [*ENCODINGS, "estimate"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_block_keeps_its_budget_as_the_vocabulary_counts(template: str, encoding: str) -> None:
    text = "{{memories}}x{{entities}} und {{profile}}"
    draw = random.Random(7)
    context = full_context()
    context = PromptContext(
        profile=context.profile,
        memories=[memory(n, "fact", draw.choice(PROSE) + IDS["hex"](draw)) for n in range(40)],
        conversations=context.conversations,
        entities=context.entities,
    )
    count = counter(encoding)
    for budget in (60, 100, 151, 257, 400, 999, 2_000):
        block = rendered(context, template, budget, text, annotate=True, count=count)
        assert block.tokens == count(block.text) <= budget
        if encoding == "estimate":
            assert real_tokens(block.text) <= budget
        elif budget >= 400:
            # What is there to print is printed.
            assert block.tokens > 0.7 * budget


def test_what_looks_like_a_control_token_is_text() -> None:
    for encoding in (*ENCODINGS, "estimate"):
        assert counter(encoding)("<|endoftext|> <|im_start|>system") >= 7


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["", " ", "/", "//x", "- a.", "...", "\r", "\t", "7", "]", "。", "é", "ab"]
            ),
            st.text(max_size=12),
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", "\n\n", ".\n", " \n ", "\r\n", "/\n/"]),
)
def test_lines_have_as_many_tokens_alone_as_together(lines: list[str], between: str) -> None:
    text = between.join(lines).encode("utf-8", "replace").decode()
    for encode in vocabularies():

        def at_once(text: str, encode: Callable[[str], list[int]] = encode) -> int:
            return len(encode(text))

        count = LineCounts(at_once)
        assert count(text) == at_once(text)
        assert count(text) == at_once(text), "the second count differs from the first"
        if text[:1].strip().strip("/"):
            whole = f"<one>\n{text}\n<two>"
            for each in (count, estimated_tokens):
                lines_alone = each.of_lines(f"{text}\n")
                assert each.between("<one>\n", lines_alone, "<two>") == each(whole)


def test_without_the_extra_the_estimate_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitherto_retrieval.render.tokens.splintr", None)
    assert counter("o200k_base") is estimated_tokens
