"""Who the speaker is: name, home, work and study."""

from __future__ import annotations

from hitherto_extraction.provider.offline.rules import Rule, pattern, words
from hitherto_extraction.provider.offline.technologies import find_technologies
from hitherto_extraction.provider.offline.vietnamese.lexicon import (
    AT,
    COMPANY,
    EMPLOYER,
    JOB,
    LOCATION,
    ME,
    NAME,
    OCCUPATION,
    ORIGIN,
    PLACE,
    STOPS,
    TO,
    WORK_ATTRIBUTES,
    WORK_FIELDS,
    is_company,
    is_introduction,
    is_job,
    is_local,
    is_name,
    is_place,
)

RULES: tuple[Rule, ...] = (
    # Names
    Rule(
        "name",
        pattern(
            r"(?:tôi (?:\w+ )?tên|tên (?:của )?tôi|tên đầy đủ của tôi)(?: đầy "
            rf"đủ| thật)?(?: là)? {words('name', STOPS, 5)}"
        ),
        "fact",
        "{s} tên là {name}.",
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
            rf"(?:(?:bạn|cứ|hãy|có thể|mọi người|hay|thường) )*gọi tôi là {words('name', STOPS, 4)}"
        ),
        "fact",
        "{s} được gọi là {name}.",
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
            rf"{ME}(?:chuyển(?: nhà| chỗ ở| hẳn)?|dọn(?: nhà)?|dời)(?: từ {ORIGIN})? "
            rf"{TO}(?: sống ở| sống| ở)? {PLACE}"
        ),
        "fact",
        "{s} đã chuyển[ từ {origin}] đến {place} và sống ở {place}.",
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
            rf"{ME}(?:sống|sinh sống|cư trú|định cư|ở|trú) (?:(?:và làm việc "
            rf")?(?:ở|tại|trong) )?(?:thành phố |tp\.? )?{PLACE}"
        ),
        "fact",
        "{s} sống ở {place}.",
        0.8,
        tags=("personal_info", "residence"),
        profile={LOCATION: "{place}"},
        attributes={"residence": "{place}"},
        entities={"place": "place"},
        guard=lambda groups, clause: (
            is_place(groups, clause) and " từng " not in clause.text.lower()
        ),
    ),
    Rule(
        "home_is",
        pattern(
            r"(?:nhà tôi|nhà của tôi|chỗ tôi) (?:hiện )?(?:ở|tại) (?:thành phố "
            rf")?{PLACE}"
        ),
        "fact",
        "{s} sống ở {place}.",
        0.8,
        tags=("personal_info", "residence"),
        profile={LOCATION: "{place}"},
        attributes={"residence": "{place}"},
        entities={"place": "place"},
        guard=is_place,
    ),
    Rule(
        "origin",
        pattern(
            r"(?:quê (?:gốc )?(?:của )?tôi|tôi quê)(?: gốc)?(?: ở| là| tại)? "
            rf"{PLACE}"
        ),
        "personal",
        "{s} quê ở {place}.",
        0.6,
        tags=("personal_info", "origin"),
        attributes={"origin": "{place}"},
        entities={"place": "place"},
        guard=is_place,
    ),
    Rule(
        "grew_up",
        pattern(r"tôi (?P<x>(?:sinh ra|lớn lên|sinh ra và lớn lên|sinh) (?:ở|tại) .+)$"),
        "personal",
        "{s} {x}.",
        0.5,
        tags=("personal_info", "origin"),
    ),
    Rule(
        "used_to",
        pattern(r"tôi (?:đã )?từng (?P<x>.+)$"),
        "personal",
        "{s} từng {x}.",
        0.4,
        tags=("personal_info", "past"),
    ),
    # Work and study
    Rule(
        "does_job_in",
        pattern(
            rf"{ME}(?:làm|làm nghề|hành nghề) (?:một )?{JOB} (?:ở|tại|trong) "
            rf"{PLACE}$"
        ),
        "fact",
        "{s} làm {job} ở {place}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}", f"{LOCATION}?": "{place}"},
        attributes={"occupation": "{job}"},
        entities={"place": "place"},
        guard=is_local,
    ),
    Rule(
        "is_job_in",
        pattern(rf"{ME}là (?:một )?{JOB} (?:ở|tại) {PLACE}$"),
        "fact",
        "{s} là {job} ở {place}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}", f"{LOCATION}?": "{place}"},
        attributes={"occupation": "{job}"},
        entities={"place": "place"},
        guard=is_local,
    ),
    Rule(
        "works_in",
        pattern(rf"{ME}(?:làm việc|đi làm|làm) (?:ở|tại|trong) {PLACE}$"),
        "fact",
        "{s} làm việc ở {place}.",
        0.7,
        tags=("personal_info", "work"),
        profile={f"{LOCATION}?": "{place}"},
        entities={"place": "place"},
        guard=is_local,
    ),
    Rule(
        "does_job",
        pattern(
            rf"{ME}(?:làm|làm nghề|làm việc như|hành nghề|theo nghề) (?:một )?{JOB}(?: "
            rf"{AT} {EMPLOYER})?(?P<rest>.*)$"
        ),
        "fact",
        "{s} làm {job}[ ở {company}]{rest}.",
        0.8,
        tags=("personal_info", "work"),
        profile=WORK_FIELDS,
        attributes=WORK_ATTRIBUTES,
        entities={"company": "company"},
        guard=is_job,
    ),
    Rule(
        "is_job",
        pattern(rf"{ME}là (?:một )?{JOB}(?: (?:ở|tại|của|cho|bên) {EMPLOYER})?(?P<rest>.*)$"),
        "fact",
        "{s} là {job}[ ở {company}]{rest}.",
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
            r"(?:công việc|nghề|nghề nghiệp)(?: hiện tại| chính)?(?: của)? tôi(?: "
            rf"hiện tại)? là {JOB}"
        ),
        "fact",
        "{s} làm {job}.",
        0.8,
        tags=("personal_info", "work"),
        profile={OCCUPATION: "{job}"},
        attributes={"occupation": "{job}"},
    ),
    Rule(
        "works_at",
        pattern(
            rf"{ME}(?:làm việc|làm|công tác|đi làm|đầu quân|vào làm|gia nhập|"
            rf"nhận việc)(?: {AT})? {EMPLOYER}(?P<rest>.*)$"
        ),
        "fact",
        "{s} làm việc tại {company}.",
        0.7,
        tags=("personal_info", "work"),
        profile={COMPANY: "{company}"},
        attributes={"employer": "{company}"},
        entities={"company": "company"},
        guard=lambda groups, clause: (
            is_company(groups, clause)
            and not find_technologies(groups["company"])
            and not groups["company"].lower().startswith(("với", "dự án"))
        ),
    ),
    Rule(
        "studies_at",
        pattern(
            r"tôi (?:đang |hiện )*(?:học|theo học) (?P<x>.*(?:ngành|đại học|"
            r"trường|cao đẳng|cao học|lớp).+)$"
        ),
        "fact",
        "{s} học {x}.",
        0.7,
        tags=("personal_info", "education"),
    ),
    Rule(
        "left_job",
        pattern(rf"{ME}(?P<x>(?:nghỉ việc|thôi việc|mất việc|bị sa thải)(?!\w).*)$"),
        "fact",
        "{s} đã {x}.",
        0.7,
        tags=("personal_info", "work"),
        achieves=True,
    ),
    Rule(
        "retired",
        pattern(
            r"tôi (?:đã |đang |mới |vừa )*(?P<x>nghỉ hưu|thất nghiệp|nghỉ thai "
            r"sản|làm tự do)"
        ),
        "fact",
        "{s} {x}.",
        0.7,
        tags=("personal_info", "work"),
        attributes={"occupation": "{x}"},
    ),
)

# To be tried last, because its opening begins so much else.
INTRODUCTION = Rule(
    "introduction",
    pattern(rf"(?:tôi|đây) là {words('name', STOPS, 4)}(?: đây)?$"),
    "fact",
    "{s} tên là {name}.",
    0.9,
    "medium",
    tags=("personal_info", "name"),
    profile={NAME: "{name}"},
    attributes={"name": "{name}"},
    guard=is_introduction,
    entities={"name": "person"},
)
