"""The words and guards the English rules are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hitherto_extraction.provider.offline.rules import (
    Clause,
    starts_like_name,
    words,
)
from hitherto_extraction.provider.offline.technologies import find_technologies

NAME = "facts.personal.name"
LOCATION = "facts.personal.location"
OCCUPATION = "facts.personal.occupation"
COMPANY = "facts.personal.company"
WORK_FIELDS = {OCCUPATION: "{job}", COMPANY: "{company}"}
WORK_ATTRIBUTES = {"occupation": "{job}", "employer": "{company}"}

ADV = (
    r"(?:(?:really|absolutely|also|just|currently|still|mostly|mainly|"
    r"usually|always|totally|actually|"
    r"now|recently|finally|have|truly|quite|generally|often|personally|"
    r"particularly|especially|both|all|"
    r"definitely|do|primarily|officially|already|never(?= liked)|been) )*"
)
ME = rf"(?:I|we) {ADV}"
BE = rf"(?:I am|we are|I have been|we have been) {ADV}"
STOPS = (
    r"for|since|with|and|but|because|now|right|these|at|in|on|to|from|"
    r"where|which|as|by|who|near|so|"
    r"until|after|while|than|about|around|though|nowadays|permanently|"
    r"again|together|last|next|or|"
    r"this|every|when|mostly|mainly|doing|working|developing|that|currently|here|actually"
)
PLACE = words("place", STOPS, 4)
ORIGIN = words("origin", STOPS, 4)
TITLE = words("job", rf"{STOPS.replace('|of', '')}|based|specialised|specialized|specializing", 5)
EMPLOYER = r"(?:(?:a|an|the|my) (?:[^\s,]+ ){0,4}?(?:called|named) )?" + words("company", STOPS, 5)
WORKPLACE = rf"(?: (?:at|for|with|of) {EMPLOYER})?(?P<rest>.*)$"
REST = r"(?P<x>.+)$"

NOT_PLACE = re.compile(
    r"^(?:a|an|my|our|your|fear|peace|harmony|luxury|town|style|person|"
    r"poverty|constant|hope|one|"
    r"here|there|it|that|this|the (?!netherlands|uk|us|usa|states|hague|"
    r"bronx|philippines|gambia)|"
    r"different|new|another)\b",
    re.IGNORECASE,
)
NOT_NAME = re.compile(
    r"^(?:a|an|the|not|so|very|too|in|on|at|from|by|going|fine|ok|okay|"
    r"good|great|well|sorry|sure|"
    r"tired|happy|sad|here|back|late|later|when|if|maybe|anything|whatever|"
    r"ready|done|curious|"
    r"wondering|anytime|any|tomorrow|once|asap|whenever|on|using|trying|"
    r"new|old|just|your|my|it|what|tbd|unknown|important|hard|long)\b",
    re.IGNORECASE,
)
DEMONYM = re.compile(
    r"^(?:\w{2,}(?:ish|ese|ian|ean|yan|can|ani|aeli|aqi|istani)|german|"
    r"french|dutch|greek|thai|czech|"
    r"swiss|muslim|jewish|catholic|hindu|christian|aries|taurus|gemini|"
    r"leo|virgo|libra|pisces)$",
    re.IGNORECASE,
)
NOT_COMPANY = re.compile(
    r"^(?:home|night|nights|myself|ourselves|fun|free|a|an|the|my|our|"
    r"it|that|this|them|him|her|you|"
    r"least|work|weekends|full|part)\b",
    re.IGNORECASE,
)
OCCUPATION_HEAD = re.compile(
    r"(?:\b(?:nurse|chef|cook|pilot|coach|judge|clerk|guard|model|student|"
    r"undergraduate|postdoc|intern|"
    r"freelancer|entrepreneur|founder|ceo|cto|cfo|vet|mechanic|architect|"
    r"scientist|analyst|assistant|"
    r"consultant|accountant|attorney|agent|surgeon|librarian|technician|"
    r"physician|musician|"
    r"electrician|politician|dev|sre|devops|researcher|professor|doctor|actor|translator|"
    r"paramedic|midwife|plumber|farmer|firefighter|soldier|priest|pastor|"
    r"housewife|homemaker|"
    r"postman|fisherman|salesman|salesperson|lead|head|executive|officer|"
    r"specialist|representative|"
    r"associate|apprentice|trainee|barista|concierge|diplomat|secretary|therapist)"
    r"|\b\w{2,}(?:eer|nter|ster|cher|ger|tter|iver|ler|gner|iter|aker|"
    r"rmer|lder|ner|ider|oper|wyer|"
    r"ter|yer|sher|cer|tor|sor|ist|ician))$",
    re.IGNORECASE,
)
NOT_OCCUPATION = re.compile(
    r"\b(?:beginner|learner|listener|owner|winner|loser|foodie|sister|"
    r"monster|twister|supporter|"
    r"bit|matter|foreigner|newcomer|runner|dinner|prisoner|hater|lover|"
    r"sitter for|minimalist|"
    r"perfectionist|optimist|pessimist|realist|feminist|atheist|vegetarian|"
    r"person|collector|"
    r"stranger|teenager|customer|user|member|reader|gamer|smoker|sleeper|"
    r"eater|drinker|traveller)$",
    re.IGNORECASE,
)
NOTHING = re.compile(
    r"^(?:it|that|this|these|those|them|him|her|you|u|your|yours|one|"
    r"so|too|what you|how you|when you|"
    r"the idea|the way you|where this|everything|that one|this one|both|"
    r"to (?:know|ask|thank|see if))"
    r"(?!\w)(?! when)",
    re.IGNORECASE,
)
REQUESTED = re.compile(
    r"^(?:know|ask|see|understand|hear|check|thank|confirm|make sure|"
    r"clarify|share|show|tell|say|"
    r"mention|point|talk|discuss|find out|be sure|have (?:a|some|you)|"
    r"get (?:a|some|your|an|help)|"
    r"try (?:it|this|that)|do (?:this|that|it)|sort|print|convert|parse|"
    r"go home|sleep|cry|scream|die|"
    r"eat|go to bed|kill|be able|verify|compare|continue|order|return|"
    r"cancel|you|add|remove)\b",
    re.IGNORECASE,
)
RELATIVE = (
    r"wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|spouse|daughters?|"
    r"sons?|kids?|child|"
    r"children|baby|twins|mother|mom|mum|father|dad|parents|sisters?|"
    r"brothers?|siblings|grandmother|"
    r"grandfather|grandma|grandpa|grandparents|grandson|granddaughter|"
    r"niece|nephew|aunt|uncle|cousin|"
    r"stepson|stepdaughter"
)
PET = (
    r"dogs?|cats?|pupp(?:y|ies)|kittens?|hamsters?|rabbits?|parrots?|"
    r"horses?|fish|turtles?|tortoise|"
    r"guinea pigs?|budgies?|snake|chickens?|pets?"
)
CONDITION = (
    r"diabetes|asthma|adhd|add|migraines?|c(?:o)?eliac(?: disease)?|"
    r"dyslexia|epilepsy|arthritis|"
    r"anxiety|depression|insomnia|high blood pressure|hypertension|lactose "
    r"intolerance|autism|"
    r"eczema|psoriasis|tinnitus|a (?:\w+ )?allergy|an? \w+ intolerance|"
    r"a bad (?:back|knee|shoulder)"
)
TRAIT = (
    r"vegetarian|vegan|pescatarian|gluten[- ]free|lactose[- ]intolerant|"
    r"c(?:o)?eliac|diabetic|dyslexic|"
    r"colou?r[- ]?blind|left[- ]handed|deaf|blind|autistic|asthmatic"
)
OUTPUT = (
    r"answers?|repl(?:y|ies)|responses?|explanations?|suggestions?|recommendations?|"
    r"outlines?|drafts?|"
    r"summar(?:y|ies)|examples?|translations?|plan|recipes?|versions?|"
    r"advice|tips?|solutions?|scripts?|"
    r"snippets?|code|itinerary|email|letter|list|schedule|essay|diagram"
)
APPOINTMENT = (
    r"interview|exam|meeting|appointment|deadline|flight|presentation|"
    r"test|wedding|trip|conference|"
    r"holiday|vacation|surgery|operation|concert|marathon|race|tournament|"
    r"audition|defen[cs]e|finals?|"
    r"midterms?|call with|check-?up|shift"
)


def is_place(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether all places of the match read as proper names of places."""
    names = [groups[key] for key in ("place", "origin") if groups.get(key)]
    return all(starts_like_name(name, clause.cased) and not NOT_PLACE.match(name) for name in names)


def is_place_of_work(groups: Mapping[str, str], clause: Clause) -> bool:
    """As `is_place`, and surely no technology or department."""
    # "in Python", "in Sales": only a capital tells, and it must not be a technology.
    return clause.cased and is_place(groups, clause) and not find_technologies(groups["place"])


def is_name(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the name of the match can be a person's."""
    return starts_like_name(groups["name"], clause.cased) and not NOT_NAME.match(groups["name"])


def is_introduction(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether "I am …" gives a name rather than a quality."""
    # "I am Dutch" and "i am hungry" look like "I am Dana": without a greeting capitals must tell.
    if not is_name(groups, clause) or find_technologies(groups["name"]):
        return False
    demonym = DEMONYM.match(groups["name"].split()[-1]) is not None
    return clause.cased and not demonym and (clause.greeted or len(groups["name"].split()) <= 3)


def is_job(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the title of the match is an occupation."""
    job = groups.get("job", "")
    return bool(OCCUPATION_HEAD.search(job)) and not NOT_OCCUPATION.search(job)


def is_company(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the employer of the match has a name."""
    company = groups["company"]
    return starts_like_name(company, clause.cased) and not NOT_COMPANY.match(company)


def is_something(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match says what, beyond a pronoun."""
    return not NOTHING.match(groups["x"])


def is_wish(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match is a goal rather than a request to the assistant."""
    return not REQUESTED.match(groups["x"]) and is_something(groups, clause)


def is_technical(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match names a technology."""
    return bool(find_technologies(groups["x"]))


STYLE_WORDS = (
    r"(?:short(?:er)?|brief(?:ly)?|concise(?:ly)?|detailed|simple|simpler|"
    r"simply|formal|informal|casual|"
    r"friendly|technical|direct|to the point|plain|clear|in detail|step by step)"
)
ANSWERING = (
    r"(?:answer|reply|respond|explain|write|speak|talk|give|format|show|"
    r"include|start|end|use)"
)
LASTING = (
    r"(?:(?:from now on|going forward|in (?:the )?future|always|please|"
    r"kindly|just|next time),? )"
)
# Possessive: "please" also stands alone where this is repeated, and must not be read in two ways.
ASK = r"(?:(?:can|could|would) you (?:please )?+)"
