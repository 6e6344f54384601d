"""Who the speaker is: name, home, work and study."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.english.lexicon import (
    BE,
    COMPANY,
    EMPLOYER,
    LOCATION,
    ME,
    NAME,
    OCCUPATION,
    ORIGIN,
    PLACE,
    STOPS,
    TITLE,
    WORK_ATTRIBUTES,
    WORK_FIELDS,
    WORKPLACE,
    is_company,
    is_introduction,
    is_job,
    is_name,
    is_place,
    is_place_of_work,
)
from hitherto_extraction.provider.offline.rules import Rule, pattern, words

RULES: tuple[Rule, ...] = (
    # Names
    Rule(
        "name",
        pattern(rf"my (?:full |first |real )?name is {words('name', STOPS, 4)}"),
        "fact",
        "{s}'s name is {name}.",
        0.9,
        tags=("personal_info", "name"),
        profile={NAME: "{name}"},
        attributes={"name": "{name}"},
        guard=is_name,
        entities={"name": "person"},
    ),
    Rule(
        "called",
        pattern(
            rf"(?:(?:you can|please|just|everyone|people|friends|they|my friends) )*"
            rf"calls? me {words('name', STOPS, 3)}$"
        ),
        "fact",
        "{s} goes by the name {name}.",
        0.9,
        tags=("personal_info", "name"),
        profile={NAME: "{name}"},
        attributes={"name": "{name}"},
        guard=is_name,
        entities={"name": "person"},
    ),
    Rule(
        "goes_by",
        pattern(rf"I go by (?:the name )?(?:of )?{words('name', STOPS, 3)}"),
        "fact",
        "{s} goes by the name {name}.",
        0.9,
        tags=("personal_info", "name"),
        profile={NAME: "{name}"},
        attributes={"name": "{name}"},
        guard=is_name,
        entities={"name": "person"},
    ),
    # Where
    Rule(
        "moved",
        pattern(
            rf"{ME}(?:moved|relocated|emigrated)(?: (?:here|back|over|away))?"
            rf"(?: from {ORIGIN})? (?:to|into) {PLACE}"
        ),
        "fact",
        "{s} moved[ from {origin}] to {place} and lives in {place}.",
        0.8,
        tags=("personal_info", "residence"),
        profile={LOCATION: "{place}"},
        attributes={"residence": "{place}"},
        entities={"place": "place", "origin": "place"},
        guard=is_place,
        achieves=True,
    ),
    Rule(
        "lives",
        pattern(
            rf"{ME}(?:live|reside|lived|am living|are living|living|am based|"
            r"are based|based"
            r"|am located)(?: and work)? in (?:the city of |downtown |central "
            rf")?{PLACE}"
            r"(?P<rest>.*)$"
        ),
        "fact",
        "{s} lives in {place}.",
        0.8,
        tags=("personal_info", "residence"),
        profile={LOCATION: "{place}"},
        attributes={"residence": "{place}"},
        entities={"place": "place"},
        guard=lambda groups, clause: (
            is_place(groups, clause)
            and not re.match(r"(?:I|we) (?:\w+ )?lived\b", clause.text, re.IGNORECASE)
        ),
    ),
    Rule(
        "home_is",
        pattern(
            r"my (?:current )?(?:home|hometown now|city|home town now) is (?:in "
            rf")?{PLACE}"
        ),
        "fact",
        "{s} lives in {place}.",
        0.8,
        tags=("personal_info", "residence"),
        profile={LOCATION: "{place}"},
        attributes={"residence": "{place}"},
        entities={"place": "place"},
        guard=is_place,
    ),
    Rule(
        "grew_up",
        pattern(
            r"I (?P<verb>grew up|was raised|was born(?: and raised)?) (?P<x>(?:in|"
            r"near|on) .+)$"
        ),
        "personal",
        "{s} {verb} {x}.",
        0.5,
        tags=("personal_info", "origin"),
    ),
    Rule(
        "origin",
        pattern(rf"(?:I am |we are |I come )(?:originally )?from {PLACE}"),
        "fact",
        "{s} is from {place}.",
        0.6,
        tags=("personal_info", "origin"),
        attributes={"origin": "{place}"},
        entities={"place": "place"},
        guard=is_place,
    ),
    Rule(
        "used_to",
        pattern(
            r"I used to (?P<x>(?:live|work|play|be|teach|study|own|have|smoke|"
            r"run) .+)$"
        ),
        "personal",
        "{s} used to {x}.",
        0.4,
        tags=("personal_info", "past"),
    ),
    # Work and study
    Rule(
        "works_as_in",
        pattern(
            rf"{ME}(?:am )?(?:work|working|employed) as (?P<art>a|an|the) {TITLE} "
            rf"in {PLACE}"
        ),
        "fact",
        "{s} works as {art} {job} in {place}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}", f"{LOCATION}?": "{place}"},
        attributes={"occupation": "{job}"},
        entities={"place": "place"},
        guard=is_place_of_work,
    ),
    Rule(
        "is_job_in",
        pattern(rf"{BE}(?P<art>a|an|the) {TITLE} in {PLACE}"),
        "fact",
        "{s} is {art} {job} in {place}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}", f"{LOCATION}?": "{place}"},
        attributes={"occupation": "{job}"},
        entities={"place": "place"},
        guard=lambda groups, clause: is_place_of_work(groups, clause) and is_job(groups, clause),
    ),
    Rule(
        "works_as",
        pattern(
            rf"{ME}(?:am )?(?:work|working|employed|serve) as (?P<art>a|an|the) "
            rf"{TITLE}{WORKPLACE}"
        ),
        "fact",
        "{s} works as {art} {job}[ at {company}]{rest}.",
        0.8,
        tags=("personal_info", "work"),
        profile=WORK_FIELDS,
        attributes=WORK_ATTRIBUTES,
        entities={"company": "company"},
    ),
    Rule(
        "new_job",
        pattern(
            rf"{ME}(?:started|began|got|took|landed|accepted|start)(?: (?:a|my) "
            r"new| a| the)? "
            r"(?:job|position|role|work|working)(?: offer)?(?: as (?P<art>a|"
            rf"an|the) {TITLE})?"
            rf"(?: (?:at|for|with|of|from) {EMPLOYER})?(?P<rest>.*)$"
        ),
        "fact",
        "{s} started a new job[ as {art} {job}][ at {company}].",
        0.8,
        tags=("personal_info", "work"),
        profile=WORK_FIELDS,
        attributes=WORK_ATTRIBUTES,
        entities={"company": "company"},
        achieves=True,
        guard=lambda groups, clause: bool(groups.get("job") or groups.get("company")),
    ),
    Rule(
        "joined",
        pattern(rf"{ME}joined {EMPLOYER}(?: as (?P<art>a|an|the|their) {TITLE})?(?P<rest>.*)$"),
        "fact",
        "{s} works at {company}[ as {art} {job}].",
        0.8,
        tags=("personal_info", "work"),
        profile=WORK_FIELDS,
        attributes=WORK_ATTRIBUTES,
        entities={"company": "company"},
        guard=is_company,
    ),
    Rule(
        "promoted",
        pattern(rf"{ME}(?:got|was|am|been) promoted to {TITLE}"),
        "fact",
        "{s} was promoted to {job}.",
        0.7,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}"},
        attributes={"occupation": "{job}"},
        achieves=True,
    ),
    Rule(
        "is_job",
        pattern(rf"{BE}(?P<art>a|an|the) {TITLE}{WORKPLACE}"),
        "fact",
        "{s} is {art} {job}[ at {company}]{rest}.",
        0.8,
        tags=("personal_info", "work"),
        profile=WORK_FIELDS,
        attributes=WORK_ATTRIBUTES,
        entities={"company": "company"},
        guard=is_job,
    ),
    Rule(
        "job_is",
        pattern(
            r"my (?:job|profession|occupation|day job) is (?:being )?(?P<art>a|"
            rf"an|the)? ?{TITLE}"
        ),
        "fact",
        "{s} works as [{art} ]{job}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}"},
        attributes={"occupation": "{job}"},
        guard=is_job,
    ),
    Rule(
        "studies",
        pattern(
            r"(?:I|we) (?:currently )?(?:study|major in|am studying|am majoring "
            r"in|studied) "
            r"(?P<x>(?!for\b|hard\b|a lot\b|how\b).+? at .+)$"
        ),
        "fact",
        "{s} studies {x}.",
        0.7,
        tags=("personal_info", "education"),
    ),
    Rule(
        "works_at",
        pattern(rf"{ME}(?:am )?(?:work|working|employed) (?:at|for|by) {EMPLOYER}(?P<rest>.*)$"),
        "fact",
        "{s} works at {company}{rest}.",
        0.7,
        tags=("personal_info", "work"),
        profile={COMPANY: "{company}"},
        attributes={"employer": "{company}"},
        entities={"company": "company"},
        guard=is_company,
    ),
    Rule(
        "works_in",
        pattern(
            r"(?:I|we) work (?P<x>(?:in|from) (?!progress|a hurry|peace|silence)"
            r"[^,]+)$"
        ),
        "fact",
        "{s} works {x}.",
        0.6,
        tags=("personal_info", "work"),
    ),
    Rule(
        "left_job",
        pattern(
            r"(?:I|we) (?:just |recently |finally |have )*(?P<x>(?:quit|left|"
            r"lost|resigned from) (?:my|the) (?:\w+ )?(?:job|position|company)\b.*)$"
        ),
        "fact",
        "{s} {x}.",
        0.7,
        tags=("personal_info", "work"),
        achieves=True,
    ),
    Rule(
        "retired",
        pattern(
            r"I am (?P<x>retired|unemployed|self-employed|between jobs|on (?:maternity|"
            r"paternity|parental|sick) leave)"
        ),
        "fact",
        "{s} is {x}.",
        0.7,
        tags=("personal_info", "work"),
        attributes={"occupation": "{x}"},
    ),
)

# To be tried last, because its opening begins so much else.
INTRODUCTION = Rule(
    "introduction",
    pattern(
        rf"(?:I am|this is) {words('name', STOPS, 3)}(?: here)?(?:$|,.*$|"
        r" from .*$)"
    ),
    "fact",
    "{s}'s name is {name}.",
    0.9,
    "medium",
    tags=("personal_info", "name"),
    profile={NAME: "{name}"},
    attributes={"name": "{name}"},
    guard=is_introduction,
    entities={"name": "person"},
)
