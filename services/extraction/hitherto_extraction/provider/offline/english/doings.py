"""What the speaker does: achievements, problems, learning, projects, plans, tools."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.english.lexicon import (
    ADV,
    APPOINTMENT,
    BE,
    ME,
    is_something,
    is_technical,
)
from hitherto_extraction.provider.offline.rules import Rule, pattern

RULES: tuple[Rule, ...] = (
    # Achievements
    Rule(
        "achieved",
        pattern(
            rf"{ME}(?:successfully )?(?P<x>(?:passed (?!on\b|out\b|by\b|away\b)|"
            r"finished (?!eating|lunch|dinner|work\b)|"
            r"completed|graduated|won|achieved|reached|defended|earned|got accepted|"
            r"got into|ran (?:the|a|my) \w* ?marathon|"
            r"managed to|got my (?:degree|license|licence|diploma|certificate|"
            r"visa|driver)|quit smoking|hit my).*)$"
        ),
        "fact",
        "{s} {x}.",
        0.7,
        tags=("achievement",),
        achieves=True,
        guard=lambda groups, clause: not re.search(r"\b(?:it|that|this)$", groups["x"]),
    ),
    # Problems and learning
    Rule(
        "problem_with",
        pattern(
            r"(?:I|we) (?:still |currently |now |also )*(?:have|had|have got|am having|are having) "
            r"(?:a |an |some |another )?(?:\w+ )?(?:problems?|issues?|trouble) with (?P<x>.+)$"
        ),
        "problem",
        "{s} has a problem with {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
        guard=is_something,
    ),
    Rule(
        "failing",
        pattern(
            r"(?:my|our) (?P<x>.+? (?:keeps? (?:\w+ing)|is (?:not working|broken|"
            r"failing|crashing|stuck|"
            r"very slow)|does not (?:work|start|connect|build|compile|load|boot|"
            r"run)|do not work|"
            r"will not (?:work|start|connect|build|compile|load|boot|run)|crash(?:es|"
            r"ed)|fails?|failed|"
            r"throws?|stopped working|is throwing|is giving me)\b.*)$"
        ),
        "problem",
        "{s}'s {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
    ),
    Rule(
        "struggling",
        pattern(
            rf"{BE}(?:stuck (?:on|with|at)|struggling (?:with|to)|having (?:\w+ "
            r")?(?:trouble|issues?|problems?|difficult(?:y|ies)|"
            r"a hard time)(?: with)?|facing|running into|dealing with|fighting "
            r"with|getting|hitting|seeing) (?P<x>.+)$"
        ),
        "problem",
        "{s} has a problem: {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
        guard=lambda groups, clause: (
            re.search(
                r"(?:stuck|struggling|trouble|issues?|problem|difficult|error|exception|"
                r"bug|crash|fail|timeout|denied|"
                r"hard time|fighting)",
                clause.text,
                re.IGNORECASE,
            )
            is not None
        ),
    ),
    Rule(
        "hit_problem",
        pattern(
            r"(?:I|we) (?:have|keep|kept|ran|got|am|can not) (?P<x>(?:getting|"
            r"having|seeing|into|an?|some|get) .*"
            r"(?:errors?|exceptions?|bugs?|crash(?:es)?|issues? with|problems? "
            r"with|timeouts?|to work|to (?:start|connect|"
            r"build|compile|run))\b.*)$"
        ),
        "problem",
        "{s} has a problem: {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
    ),
    Rule(
        "learning",
        pattern(
            rf"{BE}(?:learning|studying|teaching myself|taking (?:a|an) (?:course|"
            r"class) (?:on|in|about)|"
            r"getting into|self-studying) (?:about |how to )?(?P<x>.+)$"
        ),
        "learning",
        "{s} is learning {x}.",
        0.5,
        tags=("learning",),
        guard=lambda groups, clause: not re.match(r"(?:for|a lot|hard|from|that)\b", groups["x"]),
    ),
    Rule(
        "learned",
        pattern(
            rf"{ME}(?:learned|learnt|taught myself|figured out|discovered|found "
            r"out) "
            r"(?P<x>(?:how to|that|about|to) .+)$"
        ),
        "learning",
        "{s} learned {x}.",
        0.5,
        tags=("learning",),
        achieves=True,
        guard=lambda groups, clause: not re.match(r"about (?:it|this|that|you)\b", groups["x"]),
    ),
    # Projects, plans, appointments
    Rule(
        "project",
        pattern(
            rf"{ME}(?:(?:am|are) {ADV})?(?P<how>working on|building|developing|"
            r"writing|creating|designing|making|launching|organi[sz]ing|"
            r"renovating|preparing) (?P<x>(?:a|an|my|our|the|some|two|three) .+)$"
        ),
        "context",
        "{s} is {how} {x}.",
        0.6,
        tags=("project",),
        technologies=True,
        guard=lambda groups, clause: (
            not re.match(r"(?:a mistake|the same|some (?:food|dinner|coffee|tea))", groups["x"])
        ),
    ),
    Rule(
        "project_is",
        pattern(
            r"my (?:current |side |main |new |latest )*project (?:is|is about|"
            r"involves) (?P<x>.+)$"
        ),
        "context",
        "{s}'s current project is {x}.",
        0.6,
        tags=("project",),
        technologies=True,
    ),
    Rule(
        "appointment",
        pattern(
            r"(?:I|we) (?:also )?(?:have|have got|got) (?P<x>(?:a|an|my|our|"
            r"the|two|three|another|surgery|exams|"
            rf"finals)\b(?:.*?\b(?:{APPOINTMENT})s?\b)?.*)$"
        ),
        "context",
        "{s} has {x}.",
        0.6,
        tags=("schedule",),
        guard=lambda groups, clause: (
            re.search(rf"\b(?:{APPOINTMENT})", groups["x"], re.IGNORECASE) is not None
        ),
    ),
    Rule(
        "deadline",
        pattern(
            rf"(?:my|our|the) (?P<x>(?:\w+ ){{0,2}}(?:{APPOINTMENT})s? (?:is|"
            r"are|starts?) (?:due )?"
            r"(?:(?:on|at|in|for|by|scheduled|set) .+|due.*))$"
        ),
        "context",
        "{s}'s {x}.",
        0.6,
        tags=("schedule",),
    ),
    Rule(
        "travelling",
        pattern(
            r"(?:I am|we are) (?:going to )?(?P<x>(?:fly|flying|travel|travell?ing|"
            r"going|heading|driving|moving|visiting|starting|"
            r"leaving|presenting|giving|hosting|attending|move|visit|start|attend|present) "
            r"(?:to |for |at |on |a |an |my |our |the )?(?!bed\b|sleep\b|insane\b|"
            r"crazy\b).+)$"
        ),
        "context",
        "{s} is {x}.",
        0.6,
        tags=("travel", "schedule"),
        guard=lambda groups, clause: (
            re.match(
                r"(?:fly|travel|moving|heading|visiting|attending|move|visit|attend|"
                r"going to [A-Z]|going on (?:a |holiday|vacation))",
                groups["x"],
            )
            is not None
        ),
    ),
    # Tools and languages
    Rule(
        "uses",
        pattern(
            rf"{ME}(?:(?:am|are) {ADV})?(?:use|using|work with|working with|code "
            r"in|coding in|program in|programming in|write|writing|"
            r"develop in|develop with|switched to|rely on|run|deploy with|host "
            r"on) (?P<x>.+)$"
        ),
        "fact",
        "{s} uses {x}.",
        0.6,
        tags=("tools",),
        technologies=True,
        guard=is_technical,
    ),
    Rule(
        "experience",
        pattern(
            r"I (?:have )?(?P<x>(?:\w+ )?(?:years? of )?(?:\w+ )?(?:experience|"
            r"background) (?:with|in) .+)$"
        ),
        "fact",
        "{s} has {x}.",
        0.6,
        tags=("work",),
        technologies=True,
    ),
    Rule(
        "speaks",
        pattern(
            r"(?:I|we) (?:\w+ly |also |can |only )*speak (?P<x>(?!to\b|with\b|"
            r"for\b|about\b|up\b).+)$"
        ),
        "fact",
        "{s} speaks {x}.",
        0.6,
        tags=("language",),
    ),
    Rule(
        "mother_tongue",
        pattern(r"my (?:native language|first language|mother tongue) is (?P<x>.+)$"),
        "fact",
        "{s}'s native language is {x}.",
        0.7,
        tags=("language",),
        attributes={"mother_tongue": "{x}"},
    ),
    Rule(
        "drives",
        pattern(
            r"(?:I|we) (?P<verb>drive|ride|own|commute) (?P<x>(?:a|an|two|by|"
            r"to work|my own) .+)$"
        ),
        "fact",
        "{s} {verb:s} {x}.",
        0.4,
        tags=("personal_info",),
    ),
)

# Tried after everything else: a deed matters only when it reaches a known goal.
DEED = Rule(
    "did_it",
    pattern(
        rf"{ME}(?P<x>(?:ran|did|bought|made|wrote|published|launched|released|"
        r"shipped|got|climbed|visited|sold|lost|saved|paid|quit|built|read|"
        r"deployed|swam|cycled|rode|drove|flew|walked|hiked|sailed|rowed|skied|crossed|beat|"
        r"broke|baked|cooked|grew|planted|painted|drew|sang|played|performed|recorded|knitted|"
        r"sewed|repaired|restored|renovated|fixed|solved|submitted|sent|translated|taught|mastered|"
        r"raised|collected|lifted|spoke|met|gave|held|cleared|cleaned|moved|migrated|opened) .+)$"
    ),
    "fact",
    "{s} {x}.",
    0.6,
    tags=("achievement",),
    achieves=True,
    needs_goal=True,
)
