"""Regular expressions, and other work on a text, take time in proportion to the text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from hitherto_client.command import output
from hitherto_client.transcripts import Defaults, TranscriptError, read_transcripts
from hitherto_extraction.documents.chunking import chunks
from hitherto_extraction.documents.entities import mentioned
from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.behaviour import count_words
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.extraction_prompt import without_blocks
from hitherto_extraction.pipeline.prompt import one_line
from hitherto_extraction.pipeline.quotes import stands_in
from hitherto_extraction.pipeline.trust import is_suspect
from hitherto_extraction.provider.offline.extractor import extract
from hitherto_extraction.provider.protocol import Batch, PromptMessage
from hitherto_extraction.provider.reply_text import UnusableAnswer
from hitherto_retrieval.render import values
from hitherto_retrieval.render.custom import check_custom_template
from hitherto_retrieval.search.intent.question import looked_up
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.own_name import about_the_user
from hitherto_retrieval.search.words import distinct_words
from hitherto_shared.dates.find import find_window
from hitherto_shared.text import normalise, terms
from hitherto_shared.text.instructions import overrides_instructions, reads_as_instruction
from tests.growth import LONG, cpu_seconds, filled, more_than_linear
from tests.unit.linear.census import PACKAGES, Census, Expression, take
from tests.unit.linear.probes import probes

_SCREENS = ((64, 0.02), (256, 0.05))
"""Characters, and the seconds that no linear expression needs for them: what is exponential or
cubic must not be tried at length."""

_RULES = "hitherto_extraction.provider.offline"
_CLAUSE = 500
_CLAUSE_SECONDS = 0.15
_CLAUSE_SCREENS = (60, 120, 240, _CLAUSE)
"""The offline rules read one clause at a time, with single spaces and of bounded length. Of that
they may need the square; for all of a message they are linear."""
_WHOLE_MESSAGES = (f"{_RULES}.text",)
"""Modules of the offline rules that read more than a clause."""

_SHAPES = ("\n", " ", "a", "a ", "忽", "1", "- ", ". ", "\u0301", "_", "🙂", "<", "“", "'a ")


@pytest.fixture(scope="module")
def census(data_dir: Path) -> Census:
    return take(data_dir.with_name("census.json"))


def test_the_census_finds_expressions_wherever_they_are(census: Census) -> None:
    places = {one.place.partition(":")[0] for one in census.expressions}
    assert {place.partition(".")[0] for place in places} == set(PACKAGES)
    assert f"{_RULES}.language" in places  # compiled by a function for a table
    assert f"{_RULES}.reading" in places  # written where it is used
    assert len(census.expressions) > 300


def test_an_expression_is_known_before_the_service_runs(census: Census) -> None:
    assert not census.made_later


@pytest.mark.parametrize("package", [*PACKAGES, _RULES])
def test_row_69_an_expression_reads_in_linear_time(census: Census, package: str) -> None:
    slow = {}
    for one in census.expressions:
        in_rules = one.place.startswith(_RULES)
        if one.place.startswith(package) and in_rules == (package == _RULES):
            whole = not in_rules or one.place.partition(":")[0] in _WHOLE_MESSAGES
            if measured := (_slow(one) if whole else _slow_on_a_clause(one)):
                slow[f"{one.place} {one.pattern[:80]}"] = measured
    assert not slow


def _texts(one: Expression) -> Iterator[tuple[str, Callable[[int], str]]]:
    yield from ((repr(shape), partial(filled, shape)) for shape in _SHAPES)
    yield from probes(one.pattern, one.flags)


def _slow(one: Expression) -> str | None:
    work = _use(one)
    for name, text in _texts(one):
        for length, most in _SCREENS:
            given = text(length)
            if _takes_more(partial(work, given), most):
                return f"{name}: {length} characters take more than {most} s"
        if measured := more_than_linear(work, text):
            return f"{name}: {measured}"
    return None


def _slow_on_a_clause(one: Expression) -> str | None:
    work = _use(one)
    for name, text in _texts(one):
        given = " ".join(text(_CLAUSE).split())
        for length in _CLAUSE_SCREENS:
            if _takes_more(partial(work, given[:length]), _CLAUSE_SECONDS):
                return f"{name}: {length} characters take more than {_CLAUSE_SECONDS} s"
    return None


def _takes_more(work: Callable[[], object], seconds: float) -> bool:
    # A busy machine inflates single measurements: look again before judging.
    return cpu_seconds(work, runs=1) > seconds and cpu_seconds(work, runs=9) > seconds


def _use(one: Expression) -> Callable[[str], object]:
    expression = re.compile(one.pattern, one.flags)
    if set(one.methods) <= {"match", "fullmatch"}:
        return lambda text: (expression.match(text), expression.fullmatch(text))
    # It searches, and goes on behind what it has found.
    return lambda text: expression.sub("", text)


# Work on a text that is more than one expression: time in proportion to the text as well.


NOW = datetime(2026, 5, 4, tzinfo=UTC)
FENCE = "<<<hitherto:memory 0123456789abcdef>>>"


def _reply(text: str) -> object:
    try:
        return read_answer(f"```json\n{text}", messages=["m1"], memories=["e1"]), read_answer(
            json.dumps({"new_memories": [{"type": "fact", "content": text, "tags": [text]}]}),
            messages=["m1"],
            memories=["e1"],
        )
    except UnusableAnswer:
        return None


def _extracted(text: str) -> object:
    said = [PromptMessage("m1", "user", "", text, NOW), PromptMessage("m2", "user", "", text, NOW)]
    return extract(Batch({}, None, [], said))


def _file(text: str) -> object:
    try:
        return read_transcripts("-", Defaults("u", "c"), stdin=io.BytesIO(text.encode()))
    except TranscriptError:
        return None


def _with_a_word_more(work: Callable[[str, str], object], text: str) -> object:
    return work(text, f"{text} tea"), work(f"tea {text}", text)


WORK: dict[str, Callable[[str], object]] = {
    "NFC": normalise.nfc,
    "folding": normalise.fold,
    "terms": terms.count_terms,
    "query terms": terms.query_terms,
    "model reply": _reply,
    "overriding words": lambda text: is_suspect([text], trusted=True),
    "same words": partial(_with_a_word_more, same_words),
    "quotes": lambda text: (stands_in(text[:900], text), stands_in(f"{text[:900]} tea", text)),
    "digits": lambda text: strange(text, [text[: len(text) // 2], f"tea {text}"], [NOW.date()]),
    "told blocks": lambda text: without_blocks(f"{FENCE}{text}{FENCE}"),
    "prompt line": one_line,
    "word count": count_words,
    "offline extraction": _extracted,
    "document": chunks,
    "mentions": lambda text: mentioned("gmail", "email", text, {"to": text, "cc": [text]}),
    "rendering": lambda text: (values.clean(text, line_start=True), values.source_word(text)),
    "label": lambda text: values.labelled(text, "x"),
    "shortening": lambda text: (values.shortened(text, 900), values.beginning(text, 900)),
    "template": check_custom_template,
    "question": lambda text: (names_in(looked_up(text)), distinct_words(looked_up(text))),
    "own name": lambda text: (about_the_user(text, "Ana Bo"), about_the_user("Does Ana?", text)),
    "dates": lambda text: find_window(text, NOW),
    "terminal": lambda text: (output.clean(text), output.clean_lines(text)),
    "transcript file": _file,
    "instructions": reads_as_instruction,
    "overrides": overrides_instructions,
}
LENGTHS = {"document": 16_384, "label": 16_384}
"""Characters of the long text where the usual ones are too few: a short one must be cut as well."""

_OF_INSTRUCTIONS = (
    "\t", "\u3000", ":", "[", "]", "(", "<", ">", '"', "'", "`", "-", "*", "#", ".", ",", "/",
    "\\", "@", "=", "{", "A", "1", "é", "か", "ア", "한", "ا", "й", "\u200b", "\u200d", "\u0f73",
    "\ufe0f", "ﷺ", "ạ", "ก", "a ", "a\n", "\n ", " \n", "\t\n", "# ", "- -\n", "_-", "a_", "a.",
    "a-", "1.", "12:", "1 ", "a@", "a@b.", "</a>", "<a>", "[a]", "![a](", "`a", '"a', "“a", "«a",
    "a: ", "[system ", "I ", "the ", "you ", "and ", "A. ", "ai ", "ignore ", "ignore all ",
    "the system ", "you must ", "system: ", "supersedes all ", "from now on ", "important ",
    "begin -- ", "забудь", "игнориру ", "ты ", "忽略", "您必", "의", "từ giờ ", "bỏ qua mọi ",
    "de ahora ", "tu ", "prompt", "a.b.c ", "ignore\n\n", "reveal ",
)  # fmt: skip
SHAPES_OF = {
    "model reply": (
        '{"', '{"a":', '{"\\"', '"\\"', "[", "<think>", "</a>{", "```json\n", '{"a": 1} ',
        '{"a": /*', "<",
    ),
    "mentions": ('"', "<", "@", "a,"),
    "document": ("🇻", '."', "e\u0301"),
    "quotes": ("a b ",),
    "instructions": _OF_INSTRUCTIONS,
    "overrides": _OF_INSTRUCTIONS,
}  # fmt: skip
"""What a reader of one kind of text might stumble over, besides the shapes of all."""

SHAPES = (
    "\n", " ", "a", "a b c ", "忽", "1,000.", "- \n", ". ", "\u0301", "\u0301\u0327", "_", "🙂",
    "<a ", "“", "'a ", "![", "{{", "not ", "can you please ", "user: ", "yesterday ", "Ana Bo ",
    "tôi ", "a;", "3 teas and ", f"{FENCE}\n", "<<<hitherto:memory ",
)  # fmt: skip


def test_row_69_work_on_a_text_takes_linear_time() -> None:
    for name, work in WORK.items():
        slow = {
            shape: measured
            for shape in (*SHAPES, *SHAPES_OF.get(name, ()))
            if (measured := more_than_linear(work, partial(filled, shape), LENGTHS.get(name, LONG)))
        }
        assert not slow, name
