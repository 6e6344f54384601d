"""A complete answer in any wrapper is an answer; what is cut off or says nothing is none.

What only fills in the form of an answer is no memory. faults.md rows 26, 79 and 80.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hitherto_extraction.pipeline.answer_parsing import KEYS, read_answer
from hitherto_extraction.provider.placeholders import is_placeholder
from hitherto_extraction.provider.reply_text import (
    CutOffAnswer,
    UnusableAnswer,
    only_reasons,
    read_object,
)
from tests.refusing import refusing

ANSWER = {
    "new_memories": [
        {"type": "fact", "content": "Lives in “Porto” {x}", "source_message_ids": ["m1"]}
    ]
}
JSON = json.dumps(ANSWER, ensure_ascii=False)
PRETTY = json.dumps(ANSWER, indent=2)
DRAFT = '{"new_memories": [{"type": "goal", "content": "A draft"}]}'
NOTHING = '{"new_memories": []}'

BARE = {
    "plain": JSON,
    "pretty": PRETTY,
    "white space": f"\n\n  {JSON}\r\n",
    "byte order mark": f"\ufeff{JSON}",
    "zero width": f"\u200b{JSON}\u200b\u2060",
    "think": f"<think>The user moved.</think>\n\n{JSON}",
    "empty think": f"<think>\n\n</think>\n\n{JSON}",
    "unopened think": f"The user moved.\n</think>\n{JSON}",
    "think with a draft": f"<think>Perhaps {DRAFT}? No.</think>{JSON}",
    "think with half a draft": f'<think>Perhaps {{"new_memories": [ "</think>{JSON}',
    "mistral": f"[THINK]Perhaps {DRAFT}[/THINK]{JSON}",
    "kimi": f"◁think▷a◁/think▷{JSON}",
    "gpt-oss": "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
    f"<|channel|>final<|message|>{JSON}<|return|>",
    "gpt-oss, final alone": f"<|channel|>final<|message|>{JSON}",
    "chatml": f"{JSON}<|im_end|>",
    "deepseek": f"{JSON}<｜end▁of▁sentence｜>",
    "answer tag": f"<answer>{JSON}</answer>",
}

WRAPPED = {
    "answer tag before words": f"<answer>\n{JSON}\n</answer>\nI hope this helps.",
    "think before a tag": f"<think>{DRAFT}</think><output>{JSON}</output> I hope this helps.",
    "fence": f"```json\n{JSON}\n```",
    "fence without a label": f"```\n{PRETTY}\n```",
    "fence on one line": f"```json {JSON} ```",
    "think and fence": f"<think>a</think>\n```json\n{PRETTY}\n```",
    "prose and fence": f"Here is the result:\n```json\n{JSON}\n```",
    "prose before": f"Sure! {JSON}",
    "prose after": f"{JSON} I hope this helps",
    "prose with braces": f"I looked {{as asked}} and {{'found'}}: {JSON}",
    "think and prose": f"<think>Perhaps {DRAFT}</think>Here you are: {JSON} Bye.",
    "unopened think and prose": f"Perhaps {DRAFT}</think> The answer: {JSON}",
    "draft and fence": f"First I thought {DRAFT}. Then:\n```json\n{JSON}\n```",
    "JSON string": json.dumps(JSON),
    "list of one": f"[{JSON}]",
    "one key": json.dumps({"response": ANSWER}),
    "schema-like": json.dumps({"properties": ANSWER, "type": "object"}),
    "call of a tool": json.dumps({"name": "extraction", "arguments": ANSWER}),
    "call with a string": json.dumps({"name": "extraction", "arguments": JSON}),
    "trailing comma in prose": f"Yes: {JSON[:-2]},]}}",
}

LIBERTIES = {
    "trailing comma": JSON[:-2] + ",\n]\n,}",
    "comments": "{ // the answer\n" + JSON[1:-1] + "/* done */}",
    "raw line break": JSON.replace("Porto”", "Porto”\n"),
}


def test_row_79_reasoning_and_marks_around_an_answer_do_no_harm() -> None:
    for name, text in BARE.items():
        assert read_object(text, KEYS) == (ANSWER, False), name
        nothing = text.replace(JSON, NOTHING).replace(PRETTY, NOTHING)
        assert read_answer(nothing, messages=[], memories=[]).new == [], name


def test_row_79_small_liberties_with_json_are_taken() -> None:
    for name, text in LIBERTIES.items():
        found, wrapped = read_object(text, KEYS)
        content = " ".join(found["new_memories"][0]["content"].split())
        assert (content, wrapped) == ("Lives in “Porto” {x}", False), name


def test_row_26_an_answer_in_a_wrapper_is_read_and_nothing_in_it_is_no_nothing() -> None:
    for name, wrapped in WRAPPED.items():
        text = wrapped
        assert read_object(text, KEYS) == (ANSWER, True), name
        for said, instead in (
            (json.dumps(JSON)[1:-1], json.dumps(NOTHING)[1:-1]),
            (JSON, NOTHING),
            (json.dumps(ANSWER), NOTHING),
            (PRETTY, NOTHING),
            (json.dumps(json.dumps(JSON)), json.dumps(NOTHING)),
            (JSON[:-2], '{"new_memories": ['),
        ):
            text = text.replace(said, instead)

        with pytest.raises(UnusableAnswer), refusing(name):
            read_answer(text, messages=[], memories=[])


def test_row_80_json_that_ends_inside_is_cut_off() -> None:
    for before in ["", "<think>a</think>", "```json\n", "Sure: "]:
        for length in range(12, len(JSON), 7):
            with pytest.raises(CutOffAnswer), refusing(before + JSON[:length]):
                read_object(before + JSON[:length], KEYS)


def test_row_80_reasoning_that_does_not_end_is_cut_off() -> None:
    for text in ["<think>Let me", f"<think>Perhaps {DRAFT} or", "[THINK] hm"]:
        with pytest.raises(CutOffAnswer), refusing(text):
            read_object(text, KEYS)
        assert only_reasons(text)


def test_row_80_a_reply_without_room_for_its_answer_is_told() -> None:
    for text, only in [
        ("", True),
        (" \n", True),
        ("<think>a</think>\n", True),
        (JSON, False),
        ("No.", False),
    ]:
        assert only_reasons(text) == only


def test_row_26_what_is_no_single_answer_stays_unusable() -> None:
    for text in [
        "I am sorry, I cannot help with that.", "", "[]", "null",
        'Use { and } as in {this} or {"that"}.', f"{JSON} or perhaps {DRAFT}", f"[{JSON}, {DRAFT}]",
        json.dumps({"a": ANSWER, "b": json.loads(DRAFT)}),
        '{"new_memories": [{"content": "a", "content": "b"}]}',
    ]:  # fmt: skip
        with pytest.raises(UnusableAnswer) as caught, refusing(text):
            read_answer(text, messages=[], memories=[])
        assert not isinstance(caught.value, CutOffAnswer), text


def test_a_tag_inside_a_content_is_a_part_of_it() -> None:
    said: dict[str, Any] = {
        "new_memories": [{"type": "fact", "content": 'Writes <b>{"x": 1}</b> and </think>{}'}]
    }
    for before in ("", "<think>a</think>", "Sure: "):
        assert read_object(before + json.dumps(said), KEYS)[0] == said


# What only fills in the form of an answer is no memory (issue: 11 junk items of "Hi there!").


INSTRUCTIONS = (
    "Each `content` is one statement in the third person. For example: The user is a software\n"
    "engineer at Google. If there is nothing to remember, answer with empty lists."
)


def test_what_nobody_said_and_only_fills_in_is_a_placeholder() -> None:
    for content in [
        "string", "N/A", "n/a.", "None", "null", "...", "…", "-", "???", "TBD", "unknown",
        "<one statement in the third person>", "<string>", "{content}", "[statement]",
        "one statement in the third person", "The user is a software engineer at Google.",
        "nothing to remember",
    ]:  # fmt: skip
        assert is_placeholder(content, INSTRUCTIONS, "Hi there!")


def test_what_may_be_a_statement_is_kept() -> None:
    for content, said in [
        ("Vegetarian", "I'm a vegetarian"),
        ("None", "My answer to all of them is none."),
        ("The user is a software engineer at Google.", "I write software for Google"),
        ("The user lives in Porto", "Vivo no Porto"),
        ("The user likes cats", "Tôi thích mèo"),
        ("ユーザーは東京に住んでいます", "I live in Tokyo"),
        ("用户喜欢绿茶", "Green tea for me"),
        ("ผู้ใช้ชอบชา", "Tea please"),
        ("Người dùng thích cà phê", "I like coffee"),
        ("المستخدم يحب القهوة", "I like coffee"),
        ("Lives at [Rua 5, Porto]", "Rua 5"),
        ("🎉 birthday on 2026-03-01", "It's my birthday"),
    ]:
        assert not is_placeholder(content, INSTRUCTIONS, said)
