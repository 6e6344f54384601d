"""The grammar around the English rules: contractions, clauses, questions, third person."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hitherto_extraction.provider.offline.english import doings, identity, life, opinions
from hitherto_extraction.provider.offline.english.forms import stem
from hitherto_extraction.provider.offline.language import Language, Phrases

_I = re.IGNORECASE
_CONTRACTIONS = [
    (re.compile(text, _I), plain)
    for text, plain in (
        (r"\bI'?m\b", "I am"),
        (r"\bI'?ve\b", "I have"),
        (r"\bI'd\b", "I would"),
        (r"\bI'll\b", "I will"),
        (r"\bwe're\b", "we are"),
        (r"\bwe'?ve\b", "we have"),
        (r"\bwe'll\b", "we will"),
        (r"\bcan'?t\b|\bcannot\b", "can not"),
        (r"\bwon't\b|\bwont\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should)n'?t\b", r"\1 not"),
        (r"\b(name|that|it|there|here|what|where|who|how|dog|cat|birthday)'s\b", r"\1 is"),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bdunno\b", "do not know"),
        (r"\bi\b", "I"),
    )
]
_SUBJECT = (
    r"(?:I|we|my|our|you|your|he|she|they|it|there|please|call me|let's|"
    r"the|this|that)\b"
)
_SPLIT = re.compile(
    r"\s*;\s*|\s+[-–—]+\s+|,\s*(?:and|but|so|plus|also|because|while|"
    r"though|although|which is why)?"
    rf"\s*(?={_SUBJECT})|\s+(?:and|but|so|because|although|while)\s+(?=(?:I|"
    r"we|my|our|please)\b)"
    # Another subject begins, or a remark about what was said.
    r"|\s+(?:and|but|so|although|while)\s+(?=(?:he|she|they)\s+[a-z]"
    r"|(?:all|most|many|some|half|both|none) of (?:it|them|this|that|these|those)\b)"
    r"|,\s*(?=which\b)",
    _I,
)
# A second verb that keeps the speaker as its subject: "I work in X and live in Y".
_ELIDED = re.compile(
    r",?\s+(?:and|but)\s+(?:also\s+|now\s+|currently\s+)?(?=(?:live|"
    r"work|love|like|hate|prefer|speak|"
    r"use|have|study|enjoy|moved|want|decided|am|play|dislike|do not)\b)",
    _I,
)
# "I am Dana, a nurse": the second half says what the first one is.
_APPOSITION = re.compile(r"(?P<who>\b(?:I am|name is) [^,;]+), (?P<what>an? [a-z])")
_SUBJECTLESS = re.compile(
    r"^(?:just |recently |finally |also )*(?=(?:moved|relocated|started|"
    r"passed|finished|graduated|"
    r"decided|work|live)\b)",
    _I,
)
_SUBJECTLESS_BE = re.compile(
    r"^(?:just |currently |now |also |still )*(?=(?:living|working|based|"
    r"learning|studying|building|"
    r"planning|trying|allergic to|stuck|struggling)\b)",
    _I,
)
_OPENING = re.compile(
    r"^(?:(?P<greeting>hi|hey|hello|hiya|greetings|good (?:morning|afternoon|"
    r"evening)|yo)(?: there| all|"
    r" everyone)?|so|well|oh|ok|okay|also|by the way|btw|fyi|actually|"
    r"honestly|just so you know|"
    r"for (?:context|the record|your information)|as you know|basically|"
    r"anyway|and|but|yes|yeah|yep|no(?=,)|"
    r"nope|sure|right|thanks|thank you|(?:(?:can|could|will) you )?(?:please "
    r")?(?:remember|note)(?: that)?(?! to)|quick update|update|"
    r"good news|currently|right now|at the moment|nowadays|lately|recently|"
    r"finally(?=,? I)|in fact|"
    r"because|since|plus|you know|to be honest|tbh|personally|one more "
    r"thing|unfortunately|sadly|luckily|"
    r"the thing is|i should mention(?: that)?|i forgot to mention(?: "
    r"that)?|on weekends|in general|"
    r"usually|normally|turns out|in my free time|in my spare time)\b[\s,!:.-]*",
    _I,
)
_CLOSING = re.compile(
    r"[\s,]*(?:\b(?:by the way|btw|though|too|as well|haha+|lol|actually|"
    r"these days|at the moment|"
    r"from now on|going forward|right now|now|nowadays|currently|lately|"
    r"of course|you know|any ?more|already|please|thanks|believe it or not|"
    r"thank you)|[.!…]+)$",
    _I,
)
_VERBS = {"am": "is", "are": "is", "have": "has", "do": "does", "go": "goes", "was": "was"}
_PLAIN = {"is": "am", "has": "have", "does": "do", "was": "was", "are": "am"}
_INVARIANT = re.compile(r"^(?:can|will|would|could|should|must|may|might|did|had|\w+ed)$", _I)
_ADVERB = re.compile(r"^(?:\w+ly|also|just|still|now|always|often|never|no)$", _I)
_ME = [
    (re.compile(rf"\b{word}\b", _I), other)
    for word, other in (
        ("I am", "they are"),
        ("I was", "they were"),
        ("I", "they"),
        ("me", "them"),
        ("my", "their"),
        ("mine", "theirs"),
        ("myself", "themselves"),
        ("we", "they"),
        ("us", "them"),
        ("our", "their"),
        ("ours", "theirs"),
        ("ourselves", "themselves"),
        ("your", "the assistant's"),
        ("you", "the assistant"),
    )
]


def _third_person(verb: str) -> str:
    head, _, tail = verb.partition(" ")
    low = head.lower()
    if low in _VERBS:
        head = _VERBS[low]
    elif not _INVARIANT.match(low):
        if re.search(r"[^aeiou]y$", low):
            head = low[:-1] + "ies"
        else:
            head = low + ("es" if re.search(r"(?:s|x|z|ch|sh|o)$", low) else "s")
    return f"{head} {tail}".strip()


def _first_person(verb: str) -> str:
    low = verb.lower()
    if low in _PLAIN:
        return _PLAIN[low]
    if low.endswith("ies") and len(low) > 4:
        return low[:-3] + "y"
    if re.search(r"(?:ss|x|zz|ch|sh|o)es$", low):
        return low[:-2]
    return low[:-1] if low.endswith("s") and not low.endswith("ss") else low


def _clauses(sentence: str) -> list[str]:
    for expression, plain in _CONTRACTIONS:
        sentence = expression.sub(plain, sentence)
    found: list[str] = []
    sentence = _APPOSITION.sub(r"\g<who>; I am \g<what>", sentence)
    for part in _SPLIT.split(sentence):
        pieces = _ELIDED.split(part)
        found.append(pieces[0])
        speaks = re.match(r"^\W*(?:\w+\W+){0,3}?(?:I|we)\b", pieces[0]) is not None
        # Without "I" before it the verb has another subject; the piece stays one clause.
        found += [f"I {piece}" for piece in pieces[1:]] if speaks else []
    return [clause.strip(" ,") for clause in found if clause and clause.strip(" ,")]


def _trim(clause: str) -> tuple[str, bool]:
    greeted = False
    while match := _OPENING.match(clause):
        greeted = greeted or match["greeting"] is not None
        clause = clause[match.end() :]
        if not match.group():
            break
    for expression, subject in ((_SUBJECTLESS_BE, "I am "), (_SUBJECTLESS, "I ")):
        if match := expression.match(clause):
            clause = subject + clause[match.end() :]
    before = ""
    while clause != before:
        before, clause = clause, _CLOSING.sub("", clause).strip()
    return clause, greeted


_DENIED = re.compile(
    r"^(?P<who>I|we) (?:do not|(?P<be>am not|are not)|have never|never)(?: "
    r"really| actually)? ",
    _I,
)
_ENDED = re.compile(
    r"^(?:I|we) (?:(?P<be>am|are) no longer|no longer|do not|(?P<not>am "
    r"not|are not)) (?P<rest>.+?)"
    r"(?P<more> any ?more)?[.!]*$",
    _I,
)


def _denied(clause: str) -> str | None:
    match = _DENIED.match(clause)
    if not match:
        return None
    return ("I am " if match["be"] else "I ") + clause[match.end() :]


def _ended(clause: str) -> str | None:
    match = _ENDED.match(clause)
    if not match or not (match["more"] or "no longer" in clause.lower()):
        return None
    return ("I am " if match["be"] or match["not"] else "I ") + match["rest"]


def _about_user(content: str, names: Sequence[str]) -> str | None:
    who = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    match = re.match(rf"^(?:the )?(?:user{'|' + who if who else ''})(?P<own>'s)?\s+", content, _I)
    if not match:
        return None
    rest = content[match.end() :].replace(" their ", " my ")
    if match["own"]:
        return f"my {rest}"
    tokens = rest.split(" ")
    for index, token in enumerate(tokens):
        if _ADVERB.match(token) and token.lower() != "no":
            continue
        tokens[index] = _first_person(token)
        break
    plain = " ".join(tokens)
    return "I " + re.sub(r"^do not\b", "do not", plain)


def _shift(text: str) -> str:
    for expression, other in _ME:
        text = expression.sub(other, text)
    return text


_ANSWERS = (
    r"(?:answers?|repl(?:y|ies)|responses?|respond|explanations?|explain|"
    r"write|messages?|keep it|keep things|make it|be)"
)
_STYLES = [
    (attribute, value, re.compile(text, _I))
    for attribute, value, text in (
        (
            "answer_length",
            "short",
            r"\b(?:short(?:er)?|brief(?:ly)?|concise(?:ly)?|terse|to the point|tl;?dr)\b",
        ),
        (
            "answer_length",
            "detailed",
            r"\b(?:detailed|in(?:[- ]| more )(?:depth|detail)|thorough|long(?:er)?|more detail)\b",
        ),
        ("answer_format", "bullet points", r"\bbullet(?:ed)?[- ](?:points?|lists?)\b"),
        ("answer_format", "step by step", r"\bstep[- ]by[- ]step\b"),
    )
]
_ANSWER_LANGUAGE = re.compile(r"\b(?:in|speak) (?P<language>[A-Z][a-z]{3,})\b")


def _style(clause: str) -> dict[str, str]:
    if not re.search(rf"\b{_ANSWERS}\b", clause, _I):
        return {}
    found: dict[str, str] = {}
    for attribute, value, expression in _STYLES:
        if attribute not in found and expression.search(clause):
            found[attribute] = value
    if re.search(r"\b(?:no|without|stop|avoid|do not use|never use|not use)\b", clause, _I):
        found.pop("answer_format", None)
    if match := _ANSWER_LANGUAGE.search(clause):
        found["answer_language"] = match["language"]
    return found


ENGLISH = Language(
    code="en",
    subject="User",
    rules=(
        *identity.RULES,
        *opinions.RULES,
        *doings.RULES,
        *life.RULES,
        doings.DEED,
        identity.INTRODUCTION,
    ),
    common=re.compile(r"(?:a|an|my|our|home|night|myself|school|work)\b", _I),
    function_words=frozenset(
        "ill id cant come back go get know think want like some all more thanks thank hello "
        "i im ive my the is are am was and of to it you your that this for with have has do "
        "dont what how can please we our not be at on would will were from an but or if "
        "should could does why where who when which there they he she his her its me just so "
        "about".split()
    ),
    stop_words=frozenset(
        "a an the i my me we our us you your he she his her they their it its this that these "
        "those is are am was were be been being have has had do does did will would can could "
        "should may might must and or but if so because as at by for from in into of on onto "
        "to with about over under than then there here not no yes very really just also too "
        "more most some any all user lives want wants wanted like likes what when where which "
        "who why how up out off one".split()
    ),
    clauses=_clauses,
    trim=_trim,
    hedge=re.compile(
        r"^(?:I (?:think|guess|suppose|believe|feel like|would say)(?: that)? "
        r"|maybe |perhaps |"
        r"it (?:seems|looks) (?:like|that) )(?=(?:I|my|we|our)\b)",
        _I,
    ),
    refuse=re.compile(
        r"\bif (?:I|we|my|only)\b|\bI wish\b|\bas if\b|\bas though\b|\bsuppos(?:e|"
        r"ing) I\b|\bimagin|"
        r"\blet's say\b|\bhypothetically\b|\bnever said\b|\bdid not say\b|\bwould have\b|"
        r"\bif I (?:was|were)\b|\bsays? that I\b|\btold (?:me|you) (?:that "
        r")?I\b|\baccording to\b|"
        r"\bin (?:my|the|a) (?:dream|novel|book|story|game|movie)\b|\bjust "
        r"kidding\b|\bjk\b",
        _I,
    ),
    refuse_rest=re.compile(
        r"^(?:please |can you |could you |hey |hi |now )*(?:translate|proofread|"
        r"rewrite|rephrase|"
        r"paraphrase|summari[sz]e|correct|edit|fix the grammar|improve|pretend|"
        r"imagine|suppose|act as|"
        r"role-?play|(?:write|compose|draft|tell|make up) (?:me )?(?:a|an|"
        r"some|the)? ?(?:\w+ )?(?:story|"
        r"poem|essay|letter|email|dialogue|song|script|tweet|post|bio|joke|"
        r"scene|message|speech)|"
        r"here is (?:a|an|the|my) (?:\w+ )?(?:email|text|quote|letter|essay|"
        r"draft|transcript)|"
        r"let's (?:pretend|imagine|say|role-?play))\b",
        _I,
    ),
    question=re.compile(
        r"^(?:(?:so|and|but|well|hey|ok),? )?(?:what|who|where|when|why|"
        r"how|which|whose|is|are|am|do|"
        r"does|did|can|could|would|should|will|may|has|have (?:I|you|we))\b(?! "
        r"about you$)",
        _I,
    ),
    asks=re.compile(
        r"^(?:and |but |so )?(?:what|who|where|when|why|how|which|is|are|"
        r"do|does|did|can|could|would|"
        r"should|will|any|right|you|ok|okay)\b",
        _I,
    ),
    how_to=re.compile(
        r"^(?:.*?\b)?(?:how (?:do|can|should|would|could) (?:I|you|we|one)|"
        r"how to|what is the (?:best|right|"
        r"easiest|proper) way to|is there (?:a|any) way to|can you (?:show|"
        r"explain)(?: me)?(?: how)?"
        r"(?: to)?)\s+(.+)",
        _I,
    ),
    request=re.compile(r"^(?:can|could|would) you\b", _I),
    denied=_denied,
    ended=_ended,
    ended_form="{s} no longer {x:s}.",
    about_user=_about_user,
    third_person=_third_person,
    shift=_shift,
    style=_style,
    thanks=re.compile(
        r"\b(?:thanks|thank you|thx|cheers|(?:it|that|this)(?: now)? (?:works|"
        r"worked|helps|helped|did it|"
        r"fixed it|solved it)|works (?:now|great|perfectly)|problem solved|"
        r"all (?:good|set)|"
        r"(?:fixed|solved) it|got it working)\b(?! in advance)",
        _I,
    ),
    later=re.compile(
        r"\b(?:(?:come|be|get|check) back|talk (?:to you )?(?:later|tomorrow)|"
        r"see you (?:later|tomorrow)|"
        r"continue (?:this )?(?:later|tomorrow|next)|to be continued|let you know|"
        r"try (?:it|that|this) (?:later|tomorrow|tonight|next)|still (?:not|"
        r"does not|doesn't|failing|broken))\b",
        _I,
    ),
    phrases=Phrases(
        asked="{s} asked: {x}",
        wrote="{s} wrote: {x}",
        go_on="Continue with {x}?",
        solved="Is this solved: {x}?",
        goal="How is it going: {x}?",
        reached="{s} did it: {x}.",
        topics={
            "name": "introduction",
            "residence": "residence",
            "work": "work",
            "family": "family",
            "pets": "pets",
            "health": "health",
            "food": "food",
            "goal": "goals",
            "travel": "travel",
            "education": "education",
            "answer_style": "answer style",
            "hobby": "hobbies",
            "project": "projects",
        },
    ),
    shared_words=1,
    announces=re.compile(
        r"^(?:(?:I|we) (?:have |finally |actually |really |just )*(?:(?:did|done|made|nailed|"
        r"managed) (?:it|this|that)|pulled (?:it|this|that) off|got there|(?:achieved|"
        r"reached|hit|met|accomplished) (?:my|our|the|this|that) (?:\w+ )?(?:goal|target|"
        r"aim|objective|resolution|dream)s?)"
        r"|(?:my |our |the )?(?:goal|mission|target|challenge) (?:is |was |has been )?(?:achieved|"
        r"accomplished|reached|completed?|done))$",
        _I,
    ),
    stem=stem,
)
