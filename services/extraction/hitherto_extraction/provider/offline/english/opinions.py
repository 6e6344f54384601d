"""What the speaker thinks: how answers should look, tastes, decisions, goals."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.english.lexicon import (
    ANSWERING,
    ASK,
    BE,
    LASTING,
    ME,
    OUTPUT,
    STYLE_WORDS,
    is_something,
    is_wish,
)
from hitherto_extraction.provider.offline.rules import Rule, pattern

RULES: tuple[Rule, ...] = (
    # How answers should look
    Rule(
        "wants_answers",
        pattern(r"(?:I|we) want the assistant to (?P<order>.+)$"),
        "preference",
        "{s} wants the assistant to {order}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
    ),
    Rule(
        "keep_answers",
        pattern(
            rf"(?:{LASTING}|{ASK}|I (?:want|need) you to |I would (?:like|prefer) "
            r"(?:it )?(?:if )?you (?:to )?)*"
            r"(?P<order>(?:keep|make) (?:all )?(?:your|the|it|things) ?(?:\w+ "
            rf")?.*\b{STYLE_WORDS}\b.*)$"
        ),
        "preference",
        "{s} wants the assistant to {order}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
        request=True,
    ),
    Rule(
        "answer_like",
        pattern(
            rf"(?:{LASTING}|{ASK})+(?P<order>{ANSWERING}\b.*\b(?:in|with|using|"
            r"without|more|less|first|as|"
            rf"{STYLE_WORDS}|units?|emojis?|always|only|at the)\b.*)$"
        ),
        "preference",
        "{s} wants the assistant to {order}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
        request=True,
        guard=lambda groups, clause: (
            (not clause.asked or re.search(r"\balways\b", clause.text, re.IGNORECASE) is not None)
            and not re.match(
                r"(?:explain|give|show|write|use) (?:me )?(?:what|how|why|the|this|"
                r"that|an?)\b",
                groups["order"],
                re.IGNORECASE,
            )
        ),
    ),
    Rule(
        "be_brief",
        pattern(rf"(?:{LASTING})*(?P<order>(?:be|answer|reply) (?:more |very )?{STYLE_WORDS}.*)$"),
        "preference",
        "{s} wants the assistant to {order}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
    ),
    Rule(
        "no_such",
        pattern(
            rf"(?:{LASTING})*(?:no|avoid|do not use|stop using|skip|never use|"
            r"without|leave out) (?:the )?"
            r"(?P<x>(?:\w+ )?(?:emojis?|jargon|bullet points?|tables?|small "
            r"talk|apologies|disclaimers?|"
            r"introductions?|markdown|exclamation marks?|code comments|acronyms|"
            r"analogies|headings?).*)$"
        ),
        "preference",
        "{s} wants answers without {x}.",
        0.7,
        tags=("preference", "answer_style"),
    ),
    Rule(
        "learns_better",
        pattern(
            r"I (?:learn|understand) (?:things )?(?:best|better|faster) "
            r"(?P<x>(?:with|by|from|through|when) .+)$"
        ),
        "preference",
        "{s} learns better {x}.",
        0.6,
        tags=("preference", "answer_style"),
    ),
    Rule(
        "asks_for_style",
        pattern(
            r"(?:I|we) (?:would (?:\w+ )?(?:like|love|appreciate|prefer)|need|want) (?P<x>(?:a |"
            rf"an |some |your )?(?:\w+ )?{STYLE_WORDS} (?:\w+ )?(?:answers?|repl(?:y|ies)|"
            r"responses?|explanations?)\b.*)$"
        ),
        "preference",
        "{s} prefers {x}.",
        0.5,
        tags=("preference", "answer_style"),
        style=True,
        repeats=True,
    ),
    # Feedback on what the assistant wrote
    Rule(
        "feedback",
        pattern(
            r"(?P<x>(?:the|that|this|your|those|these) (?:last |previous |first "
            r"|second )?(?:\w+ )?"
            rf"(?:{OUTPUT})(?: you (?:wrote|gave|sent|made|suggested|showed|proposed|"
            r"provided)(?: me)?)?(?: (?:earlier|above|before))? (?:was|is|were|"
            r"are|looks?|seems?|felt|"
            r"feels|reads?|helped|worked|did not|does not) .+)$"
        ),
        "feedback",
        "{s} on a reply: {x}.",
        0.5,
        tags=("feedback",),
    ),
    Rule(
        "feedback_verdict",
        pattern(
            rf"I (?:really )?(?P<x>(?:liked?|loved?|hated?|did not like|do not like|"
            rf"appreciated?|found) (?:the|your|that) (?:\w+ )?(?:{OUTPUT})\b.*)$"
        ),
        "feedback",
        "{s} on a reply: they {x}.",
        0.5,
        tags=("feedback",),
    ),
    Rule(
        "too_much",
        pattern(
            r"(?P<x>(?:that|this|it) (?:is|was) (?:way |far |much |a bit )?too "
            r"(?:long|short|technical|"
            r"complicated|vague|generic|simple|formal|wordy|verbose)\b.*)$"
        ),
        "feedback",
        "{s} on a reply: {x}.",
        0.5,
        tags=("feedback", "answer_style"),
    ),
    # Tastes
    Rule(
        "favourite",
        pattern(
            r"my (?:all[- ]time |absolute |current )?favou?rite (?P<thing>.+?) "
            r"(?:is|are|has always been)"
            r" (?:definitely |probably |still )?(?P<x>.+)$"
        ),
        "preference",
        "{s}'s favourite {thing} is {x}.",
        0.6,
        tags=("preference",),
        attributes={"favourite:{thing}": "{x}"},
        guard=is_something,
    ),
    Rule(
        "prefers",
        pattern(
            r"(?:I|we) (?:\w+ly |would |much |still )*(?:prefer|rather have|"
            r"favor|favour) (?P<x>.+)$"
        ),
        "preference",
        "{s} prefers {x}.",
        0.6,
        tags=("preference",),
        style=True,
        guard=is_something,
    ),
    Rule(
        "dislikes",
        pattern(
            r"(?:I|we) (?:\w+ly |just |also |have always )*(?:hate|hated|dislike|"
            r"detest|despise|loathe|can not (?:stand|bear)|"
            r"am not (?:a (?:big |huge )?fan of|into|fond of|keen on)|do not "
            r"(?:\w+ly )?(?:like|enjoy|care for|love)|"
            r"never liked|have never liked) (?P<x>.+)$"
        ),
        "preference",
        "{s} dislikes {x}.",
        0.6,
        tags=("preference", "dislike"),
        attributes={"taste:{x}": "dislike"},
        guard=is_something,
    ),
    Rule(
        "wants_love",
        pattern(r"(?:I|we) would (?:\w+ )?(?:love|like) to (?P<x>.+)$"),
        "goal",
        "{s} wants to {x}.",
        0.6,
        tags=("goal",),
        guard=is_wish,
    ),
    Rule(
        "likes",
        pattern(
            rf"{ME}(?:like|love|loved|enjoy|adore|am (?:\w+ )?into|am (?:a |an "
            r")?(?:\w+ )?fan of|am fond of|"
            r"am obsessed with|am keen on|am crazy about|am passionate about|"
            r"am interested in) (?P<x>.+)$"
        ),
        "preference",
        "{s} likes {x}.",
        0.6,
        tags=("preference", "like"),
        attributes={"taste:{x}": "like"},
        guard=is_something,
    ),
    # Decisions
    Rule(
        "decided",
        pattern(
            rf"{ME}(?:decided|agreed|chose|chosen) (?P<x>(?:to|on|against|that|"
            r"not to) .+)$"
        ),
        "decision",
        "{s} decided {x}.",
        0.7,
        tags=("decision",),
        technologies=True,
    ),
    Rule(
        "chose",
        pattern(
            rf"{ME}(?:chose|chosen|picked|opted for|settled on|went with|are "
            r"going with|am going with|"
            r"going with) (?P<x>.+)$"
        ),
        "decision",
        "{s} chose {x}.",
        0.7,
        tags=("decision",),
        guard=is_something,
    ),
    Rule(
        "will_go_with",
        pattern(
            r"(?:I will|we will|I am going to|we are going to|let's|I am gonna) "
            r"(?:just |definitely )?"
            r"(?:go|stick|stay) with (?P<x>.+)$"
        ),
        "decision",
        "{s} chose {x}.",
        0.7,
        tags=("decision",),
        guard=is_something,
    ),
    Rule(
        "will_choose",
        pattern(
            r"(?:I will|we will|I am going to|we are going to|let's) (?:just "
            r"|definitely )?"
            r"(?:choose|pick|opt for|switch to|migrate to) (?P<x>.+)$"
        ),
        "decision",
        "{s} chose {x}.",
        0.7,
        tags=("decision",),
        guard=is_something,
    ),
    # Goals
    Rule(
        "goal_is",
        pattern(
            r"my (?:\w+[- ]?\w* ){0,2}(?:goal|aim|dream|ambition|target|objective|"
            r"resolution|plan)"
            r"(?: for [\w ]+)? is (?:to (?:be able to )?)?(?P<x>.+)$"
        ),
        "goal",
        "{s}'s goal is to {x}.",
        0.8,
        tags=("goal",),
    ),
    Rule(
        "wants",
        pattern(rf"{ME}(?:want|hope|intend|plan|aim|wish|dream) (?:to|of) (?P<x>.+)$"),
        "goal",
        "{s} wants to {x}.",
        0.6,
        tags=("goal",),
        guard=is_wish,
    ),
    Rule(
        "is_planning",
        pattern(
            rf"{BE}(?P<how>trying|hoping|planning|aiming|aspiring|training|preparing|"
            r"saving(?: up)?|studying|"
            r"thinking) (?P<x>(?:to|for|of|on|about) .+)$"
        ),
        "goal",
        "{s} is {how} {x}.",
        0.6,
        tags=("goal",),
        achieves=False,
        guard=lambda groups, clause: (
            not re.match(
                r"(?:to|about|of) (?:(?:understand|figure|find|see|fix|install|debug|"
                r"call|open|log)\b|"
                r"(?:it|this|that|you|what|how)\b)",
                groups["x"],
                re.IGNORECASE,
            )
            and (groups["how"].lower() not in ("thinking",) or " moving " in clause.text)
        ),
    ),
)
