"""How the speaker lives: health and food, family, pets, hobbies."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.english.lexicon import (
    ADV,
    BE,
    CONDITION,
    PET,
    RELATIVE,
    REST,
    TRAIT,
    is_something,
)
from hitherto_extraction.provider.offline.rules import Rule, pattern

RULES: tuple[Rule, ...] = (
    # Health and food
    Rule(
        "allergy",
        pattern(rf"{BE}(?:\w+ly )?allergic to {REST}"),
        "fact",
        "{s} is allergic to {x}.",
        0.9,
        tags=("health", "food", "allergy"),
    ),
    Rule(
        "condition",
        pattern(
            rf"I {ADV}(?:have|have got|suffer from|was diagnosed with|am living "
            r"with|"
            rf"got diagnosed with) (?P<x>(?:\w+ ){{0,3}}?(?:{CONDITION})\b.*)$"
        ),
        "fact",
        "{s} has {x}.",
        0.9,
        tags=("health",),
    ),
    Rule(
        "had_condition",
        pattern(rf"I (?P<x>(?:\w+ ){{0,3}}?(?:{CONDITION})\b.*)$"),
        "fact",
        "{s} has {x}.",
        0.9,
        tags=("health",),
        guard=lambda groups, clause: clause.text.lower().startswith("i have"),
    ),
    Rule(
        "diet",
        pattern(
            rf"(?:I am|I have been|I became|I went|I turned) {ADV}(?:a |an |strictly "
            r")?"
            rf"(?P<x>{TRAIT})\b(?P<rest>.*)$"
        ),
        "fact",
        "{s} is {x}{rest}.",
        0.8,
        tags=("health", "food"),
        attributes={"diet": "{x}"},
    ),
    Rule(
        "does_not_eat",
        pattern(r"(?:I|we) (?:do not|never|can not) (?P<verb>eat|drink|smoke) (?P<x>.+)$"),
        "fact",
        "{s} does not {verb} {x}.",
        0.8,
        tags=("health", "food"),
        attributes={"consumes:{x}": "no"},
        guard=lambda groups, clause: not re.match(r"(?:much|enough|well|at)\b", groups["x"]),
    ),
    # Family, pets, life
    Rule(
        "relative",
        pattern(
            rf"(?:my|our) (?P<x>(?:\w+ )?(?:{RELATIVE}|{PET})(?:,? (?!is\b|are\b|"
            r"has\b)[^\s,]+,?)? (?:is|are|has|have|works?|lives?|"
            r"turned|was born|plays?|studies|studied|likes?|loves?|hates?|goes|"
            r"just turned|speaks?|teaches) "
            r"(?!(?:driving|making|getting|asking|telling|coming|going|always|not)\b).+)$"
        ),
        "personal",
        "{s}'s {x}.",
        0.6,
        tags=("family",),
    ),
    Rule(
        "has_family",
        pattern(
            r"(?:I|we) (?:also )?(?:have|have got|own|adopted|got|just (?:got|"
            r"adopted)) (?P<x>(?:an?|one|two|three|four|five|"
            rf"six|\d+|twin|our|some|no) (?:\w+[- ]){{0,3}}?(?:{RELATIVE}|{PET})\b.*)$"
        ),
        "personal",
        "{s} has {x}.",
        0.6,
        tags=("family",),
    ),
    Rule(
        "marriage",
        pattern(
            r"(?:I|we) (?:just |recently |have )*(?P<x>(?:got|are getting|am "
            r"getting) (?:married|engaged|divorced)|"
            r"became (?:a )?(?:parents?|father|mother|dad|mom|mum)|had (?:a|"
            r"our|my) (?:\w+ )?baby)\b(?P<rest>.*)$"
        ),
        "personal",
        "{s} {x}{rest}.",
        0.7,
        tags=("family",),
        achieves=True,
    ),
    Rule(
        "marital",
        pattern(
            r"(?:I am|we are|I have been) (?:\w+ly )?(?P<x>married|single|engaged|"
            r"divorced|widowed|pregnant|"
            r"expecting (?:a|our|my) \w*)\b(?P<rest>.*)$"
        ),
        "personal",
        "{s} is {x}{rest}.",
        0.7,
        tags=("family",),
        guard=lambda groups, clause: "engaged in" not in clause.text.lower(),
    ),
    Rule(
        "birthday",
        pattern(r"my birthday is (?:on |in )?(?P<x>.+)$"),
        "personal",
        "{s}'s birthday is {x}.",
        0.8,
        tags=("personal_info", "birthday"),
        attributes={"birthday": "{x}"},
        guard=lambda groups, clause: not re.match(r"(?:coming|soon|near|over|not)\b", groups["x"]),
    ),
    Rule(
        "age",
        pattern(
            r"I (?:am|just turned|turned|have turned) (?P<x>\d{1,2})(?: years? "
            r"old| yo| now)?(?:$|,.*$)"
        ),
        "personal",
        "{s} is {x} years old.",
        0.7,
        tags=("personal_info", "age"),
        attributes={"age": "{x}"},
    ),
    Rule(
        "hobby",
        pattern(
            r"(?:I|we) (?:\w+ly |also |often |sometimes |always )*(?P<verb>play|"
            r"collect|practi[cs]e|volunteer|sing|coach|"
            r"paint|knit|garden|meditate|brew|bake|dance) (?P<x>.+)$"
        ),
        "personal",
        "{s} {verb:s} {x}.",
        0.5,
        tags=("hobby",),
        guard=is_something,
    ),
    Rule(
        "kind_of_person",
        pattern(
            r"I am (?P<x>(?:an?|the) (?:\w+ ){0,2}(?:person|owl|introvert|extrovert|"
            r"parent|mother|father|mom|mum|"
            r"dad|twin|widower?|native speaker|early bird|only child))\b(?P<rest>.*)$"
        ),
        "personal",
        "{s} is {x}{rest}.",
        0.5,
        tags=("personal_info",),
    ),
)
