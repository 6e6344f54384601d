"""What the engine needs to know about a language. English and Vietnamese each make one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hitherto_extraction.provider.offline.rules import Rule


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences of the summary, each with `{}` for what it is about."""

    asked: str
    wrote: str
    go_on: str
    solved: str
    goal: str
    reached: str
    topics: Mapping[str, str]  # tag to readable topic


@dataclass(frozen=True, slots=True)
class Language:
    """A rule table with the grammar around it.

    Attributes:
        code: ISO 639-1.
        subject: Who a memory is about when the speaker has no name.
        rules: In order; the first that fits a clause wins.
        common: Openings no company's name has.
        function_words: Frequent words by which the language is recognised.
        stop_words: Words that carry no topic.
        clauses: Cuts a sentence into clauses, contractions spelt out.
        trim: Takes fillers off both ends of a clause: (clause, whether it greeted).
        hedge: Openings such as "I think" that lower the confidence.
        refuse: A sentence that states nothing about the speaker (hypothetical, sarcasm…).
        refuse_rest: As `refuse`, but the rest of the message belongs to it (role play, a text
            to translate).
        question: A question without a question mark.
        asks: How a clause begins or ends that is the asking part of a longer sentence.
        how_to: A question how something is done; its first group is what.
        request: How a clause begins that asks the assistant for something.
        denied: Turns "I do not live in X" into "I live in X"; None when nothing is denied.
        ended: As `denied` for "I no longer live in X".
        ended_form: How the end of something is written: `{s}` and `{x}`.
        about_user: Turns a third-person memory back into the first person.
        third_person: Conjugates a verb.
        shift: Turns first-person words inside a value into third-person ones.
        style: Reads an answer style: attribute to value.
        thanks, later: End of a resolved conversation, and of one to be continued.
        phrases: For the summary.
        announces: A clause that says that something was reached, and not what.
        stem: Brings the forms of a folded word together.
        unaccented: Folded function words by which a text typed without accents is recognised.
        shared_words: Content words an achievement and a goal must share.
    """

    code: str
    subject: str
    rules: Sequence[Rule]
    common: re.Pattern[str]
    function_words: frozenset[str]
    stop_words: frozenset[str]
    clauses: Callable[[str], list[str]]
    trim: Callable[[str], tuple[str, bool]]
    hedge: re.Pattern[str]
    refuse: re.Pattern[str]
    refuse_rest: re.Pattern[str]
    question: re.Pattern[str]
    asks: re.Pattern[str]
    how_to: re.Pattern[str]
    request: re.Pattern[str]
    denied: Callable[[str], str | None]
    ended: Callable[[str], str | None]
    ended_form: str
    about_user: Callable[[str, Sequence[str]], str | None]
    third_person: Callable[[str], str]
    shift: Callable[[str], str]
    style: Callable[[str], dict[str, str]]
    thanks: re.Pattern[str]
    later: re.Pattern[str]
    phrases: Phrases
    shared_words: int
    announces: re.Pattern[str]
    stem: Callable[[str], str]
    unaccented: frozenset[str] = frozenset()
