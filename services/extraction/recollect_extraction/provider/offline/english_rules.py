"""The table of rules for English. Clauses arrive with contractions spelt out ("I am", "do not")."""

from __future__ import annotations

import re
from collections.abc import Mapping

from recollect_extraction.provider.offline.rules import (
    Clause,
    Rule,
    pattern,
    starts_like_name,
    words,
)
from recollect_extraction.provider.offline.technologies import find_technologies

_NAME = "facts.personal.name"
_LOCATION = "facts.personal.location"
_OCCUPATION = "facts.personal.occupation"
_COMPANY = "facts.personal.company"
_WORK_FIELDS = {_OCCUPATION: "{job}", _COMPANY: "{company}"}
_WORK_ATTRIBUTES = {"occupation": "{job}", "employer": "{company}"}

_ADV = (
    r"(?:(?:really|absolutely|also|just|currently|still|mostly|mainly|usually|always|totally|actually|"
    r"now|recently|finally|have|truly|quite|generally|often|personally|particularly|especially|both|all|"
    r"definitely|do|primarily|officially|already|never(?= liked)|been) )*"
)
_ME = rf"(?:I|we) {_ADV}"
_BE = rf"(?:I am|we are|I have been|we have been) {_ADV}"
_STOPS = (
    r"for|since|with|and|but|because|now|right|these|at|in|on|to|from|where|which|as|by|who|near|so|"
    r"until|after|while|than|about|around|though|nowadays|permanently|again|together|last|next|or|"
    r"this|every|when|mostly|mainly|doing|working|developing|that|currently|here|actually"
)
_PLACE = words("place", _STOPS, 4)
_ORIGIN = words("origin", _STOPS, 4)
_TITLE = words("job", rf"{_STOPS.replace('|of', '')}|based|specialised|specialized|specializing", 5)
_EMPLOYER = r"(?:(?:a|an|the|my) (?:[^\s,]+ ){0,4}?(?:called|named) )?" + words(
    "company", _STOPS, 5
)
_WORKPLACE = rf"(?: (?:at|for|with|of) {_EMPLOYER})?(?P<rest>.*)$"
_REST = r"(?P<x>.+)$"

_NOT_PLACE = re.compile(
    r"^(?:a|an|my|our|your|fear|peace|harmony|luxury|town|style|person|poverty|constant|hope|one|"
    r"here|there|it|that|this|the (?!netherlands|uk|us|usa|states|hague|bronx|philippines|gambia)|"
    r"different|new|another)\b",
    re.IGNORECASE,
)
_NOT_NAME = re.compile(
    r"^(?:a|an|the|not|so|very|too|in|on|at|from|by|going|fine|ok|okay|good|great|well|sorry|sure|"
    r"tired|happy|sad|here|back|late|later|when|if|maybe|anything|whatever|ready|done|curious|"
    r"wondering|using|trying|new|old|just|your|my|it|what|tbd|unknown|important|hard|long)\b",
    re.IGNORECASE,
)
_DEMONYM = re.compile(
    r"^(?:\w{3,}(?:ish|ese|ian|ean|yan|can|ani|aeli|aqi|istani)|german|french|dutch|greek|thai|czech|"
    r"swiss|muslim|jewish|catholic|hindu|christian|aries|taurus|gemini|leo|virgo|libra|pisces)$",
    re.IGNORECASE,
)
_NOT_COMPANY = re.compile(
    r"^(?:home|night|nights|myself|ourselves|fun|free|a|an|the|my|our|it|that|this|them|him|her|you|"
    r"least|work|weekends|full|part)\b",
    re.IGNORECASE,
)
_OCCUPATION_HEAD = re.compile(
    r"(?:\b(?:nurse|chef|cook|pilot|coach|judge|clerk|guard|model|student|undergraduate|postdoc|intern|"
    r"freelancer|entrepreneur|founder|ceo|cto|cfo|vet|mechanic|architect|scientist|analyst|assistant|"
    r"consultant|accountant|attorney|agent|surgeon|librarian|technician|physician|musician|"
    r"electrician|politician|dev|sre|devops|researcher|professor|doctor|actor|translator|"
    r"paramedic|midwife|plumber|farmer|firefighter|soldier|priest|pastor|housewife|homemaker|"
    r"postman|fisherman|salesman|salesperson|lead|head|executive|officer|specialist|representative|"
    r"associate|apprentice|trainee|barista|concierge|diplomat|secretary|therapist)"
    r"|\b\w{2,}(?:eer|nter|ster|cher|ger|tter|iver|ler|gner|iter|aker|rmer|lder|ner|ider|oper|wyer|"
    r"ter|yer|sher|cer|tor|sor|ist|ician))$",
    re.IGNORECASE,
)
_NOT_OCCUPATION = re.compile(
    r"\b(?:beginner|learner|listener|owner|winner|loser|foodie|sister|monster|twister|supporter|"
    r"bit|matter|foreigner|newcomer|runner|dinner|prisoner|hater|lover|sitter for|minimalist|"
    r"perfectionist|optimist|pessimist|realist|feminist|atheist|vegetarian|person|collector|"
    r"stranger|teenager|customer|user|member|reader|gamer|smoker|sleeper|eater|drinker|traveller)$",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^(?:it|that|this|these|those|them|him|her|you|u|your|yours|one|so|too|what you|how you|when you|"
    r"the idea|the way you|where this|everything|that one|this one|both|to (?:know|ask|thank|see if))"
    r"(?!\w)(?! when)",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"^(?:know|ask|see|understand|hear|check|thank|confirm|make sure|clarify|share|show|tell|say|"
    r"mention|point|talk|discuss|find out|be sure|have (?:a|some|you)|get (?:a|some|your|an|help)|"
    r"try (?:it|this|that)|do (?:this|that|it)|sort|print|convert|parse|go home|sleep|cry|scream|die|"
    r"eat|go to bed|kill|be able|verify|compare|continue|order|return|cancel|you|add|remove)\b",
    re.IGNORECASE,
)
_RELATIVE = (
    r"wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|spouse|daughters?|sons?|kids?|child|"
    r"children|baby|twins|mother|mom|mum|father|dad|parents|sisters?|brothers?|siblings|grandmother|"
    r"grandfather|grandma|grandpa|grandparents|grandson|granddaughter|niece|nephew|aunt|uncle|cousin|"
    r"stepson|stepdaughter"
)
_PET = (
    r"dogs?|cats?|pupp(?:y|ies)|kittens?|hamsters?|rabbits?|parrots?|horses?|fish|turtles?|tortoise|"
    r"guinea pigs?|budgies?|snake|chickens?|pets?"
)
_CONDITION = (
    r"diabetes|asthma|adhd|add|migraines?|c(?:o)?eliac(?: disease)?|dyslexia|epilepsy|arthritis|"
    r"anxiety|depression|insomnia|high blood pressure|hypertension|lactose intolerance|autism|"
    r"eczema|psoriasis|tinnitus|a (?:\w+ )?allergy|an? \w+ intolerance|a bad (?:back|knee|shoulder)"
)
_TRAIT = (
    r"vegetarian|vegan|pescatarian|gluten[- ]free|lactose[- ]intolerant|c(?:o)?eliac|diabetic|dyslexic|"
    r"colou?r[- ]?blind|left[- ]handed|deaf|blind|autistic|asthmatic"
)
_OUTPUT = (
    r"answers?|repl(?:y|ies)|responses?|explanations?|suggestions?|recommendations?|outlines?|drafts?|"
    r"summar(?:y|ies)|examples?|translations?|plan|recipes?|versions?|advice|tips?|solutions?|scripts?|"
    r"snippets?|code|itinerary|email|letter|list|schedule|essay|diagram"
)
_APPOINTMENT = (
    r"interview|exam|meeting|appointment|deadline|flight|presentation|test|wedding|trip|conference|"
    r"holiday|vacation|surgery|operation|concert|marathon|race|tournament|audition|defen[cs]e|finals?|"
    r"midterms?|call with|check-?up|shift"
)


def _place(groups: Mapping[str, str], clause: Clause) -> bool:
    names = [groups[key] for key in ("place", "origin") if groups.get(key)]
    return all(
        starts_like_name(name, clause.cased) and not _NOT_PLACE.match(name) for name in names
    )


def _name(groups: Mapping[str, str], clause: Clause) -> bool:
    return starts_like_name(groups["name"], clause.cased) and not _NOT_NAME.match(groups["name"])


def _introduction(groups: Mapping[str, str], clause: Clause) -> bool:
    # "I am Dutch" and "i am hungry" look like "I am Dana": without a greeting capitals must tell.
    if not _name(groups, clause) or find_technologies(groups["name"]):
        return False
    demonym = _DEMONYM.match(groups["name"].split()[-1]) is not None
    return clause.cased and not demonym and (clause.greeted or len(groups["name"].split()) <= 3)


def _job(groups: Mapping[str, str], clause: Clause) -> bool:
    job = groups.get("job", "")
    return bool(_OCCUPATION_HEAD.search(job)) and not _NOT_OCCUPATION.search(job)


def _company(groups: Mapping[str, str], clause: Clause) -> bool:
    company = groups["company"]
    return starts_like_name(company, clause.cased) and not _NOT_COMPANY.match(company)


def _something(groups: Mapping[str, str], clause: Clause) -> bool:
    return not _NOTHING.match(groups["x"])


def _wish(groups: Mapping[str, str], clause: Clause) -> bool:
    return not _REQUESTED.match(groups["x"]) and _something(groups, clause)


def _technical(groups: Mapping[str, str], clause: Clause) -> bool:
    return bool(find_technologies(groups["x"]))


_STYLE_WORDS = (
    r"(?:short(?:er)?|brief(?:ly)?|concise(?:ly)?|detailed|simple|simpler|simply|formal|informal|casual|"
    r"friendly|technical|direct|to the point|plain|clear|in detail|step by step)"
)
_ANSWERING = (
    r"(?:answer|reply|respond|explain|write|speak|talk|give|format|show|include|start|end|use)"
)
_LASTING = (
    r"(?:(?:from now on|going forward|in (?:the )?future|always|please|kindly|just|next time),? )"
)
_ASK = r"(?:(?:can|could|would) you (?:please )?)"

RULES: tuple[Rule, ...] = (
    # Names
    Rule("name", pattern(rf"my (?:full |first |real )?name is {words('name', _STOPS, 4)}"), "fact",
         "{s}'s name is {name}.", 0.9, tags=("personal_info", "name"), profile={_NAME: "{name}"},
         attributes={"name": "{name}"}, guard=_name, entities={"name": "person"}),
    Rule("called", pattern(rf"(?:(?:you can|please|just|everyone|people|friends|they|my friends) )*"
                           rf"calls? me {words('name', _STOPS, 3)}$"), "fact",
         "{s} goes by the name {name}.", 0.9, tags=("personal_info", "name"),
         profile={_NAME: "{name}"}, attributes={"name": "{name}"}, guard=_name,
         entities={"name": "person"}),
    Rule("goes_by", pattern(rf"I go by (?:the name )?(?:of )?{words('name', _STOPS, 3)}"), "fact",
         "{s} goes by the name {name}.", 0.9, tags=("personal_info", "name"),
         profile={_NAME: "{name}"}, attributes={"name": "{name}"}, guard=_name,
         entities={"name": "person"}),
    # How answers should look
    Rule("wants_answers", pattern(r"(?:I|we) want the assistant to (?P<x>.+)$"), "preference",
         "{s} wants the assistant to {x}.", 0.7, tags=("preference", "answer_style"), style=True),
    Rule("keep_answers", pattern(
        rf"(?:{_LASTING}|{_ASK}|I (?:want|need) you to |I would (?:like|prefer) (?:it )?(?:if )?you (?:to )?)*"
        rf"(?P<x>(?:keep|make) (?:all )?(?:your|the|it|things) ?(?:\w+ )?.*\b{_STYLE_WORDS}\b.*)$"),
        "preference", "{s} wants the assistant to {x}.", 0.7, tags=("preference", "answer_style"),
        style=True, request=True),
    Rule("answer_like", pattern(
        rf"(?:{_LASTING}|{_ASK})+(?P<x>{_ANSWERING}\b.*\b(?:in|with|using|without|more|less|first|as|"
        rf"{_STYLE_WORDS}|units?|emojis?|always|only|at the)\b.*)$"),
        "preference", "{s} wants the assistant to {x}.", 0.7, tags=("preference", "answer_style"),
        style=True, request=True,
        guard=lambda groups, clause: (
            not clause.asked or re.search(r"\balways\b", clause.text, re.IGNORECASE) is not None
        ) and not re.match(r"(?:explain|give|show|write|use) (?:me )?(?:what|how|why|the|this|that|an?)\b",
                           groups["x"], re.IGNORECASE)),
    Rule("be_brief", pattern(rf"(?:{_LASTING})*(?P<x>(?:be|answer|reply) (?:more |very )?{_STYLE_WORDS}.*)$"),
         "preference", "{s} wants the assistant to {x}.", 0.7, tags=("preference", "answer_style"),
         style=True),
    Rule("no_such", pattern(
        rf"(?:{_LASTING})*(?:no|avoid|do not use|stop using|skip|never use|without|leave out) (?:the )?"
        r"(?P<x>(?:\w+ )?(?:emojis?|jargon|bullet points?|tables?|small talk|apologies|disclaimers?|"
        r"introductions?|markdown|exclamation marks?|code comments|acronyms|analogies|headings?).*)$"),
        "preference", "{s} wants answers without {x}.", 0.7, tags=("preference", "answer_style")),
    Rule("learns_better", pattern(r"I (?:learn|understand) (?:things )?(?:best|better|faster) "
                                  r"(?P<x>(?:with|by|from|through|when) .+)$"),
         "preference", "{s} learns better {x}.", 0.6, tags=("preference", "answer_style")),
    # Where
    Rule("moved", pattern(rf"{_ME}(?:moved|relocated|emigrated)(?: (?:here|back|over|away))?"
                          rf"(?: from {_ORIGIN})? (?:to|into) {_PLACE}"), "fact",
         "{s} moved[ from {origin}] to {place} and lives in {place}.", 0.8,
         tags=("personal_info", "residence"), profile={_LOCATION: "{place}"},
         attributes={"residence": "{place}"}, entities={"place": "place", "origin": "place"},
         guard=_place, achieves=True),
    Rule("lives", pattern(rf"{_ME}(?:live|reside|lived|am living|are living|living|am based|are based|based"
                          rf"|am located)(?: and work)? in (?:the city of |downtown |central )?{_PLACE}"
                          r"(?P<rest>.*)$"),
         "fact", "{s} lives in {place}.", 0.8, tags=("personal_info", "residence"),
         profile={_LOCATION: "{place}"}, attributes={"residence": "{place}"},
         entities={"place": "place"},
         guard=lambda groups, clause: _place(groups, clause)
         and not re.match(r"(?:I|we) (?:\w+ )?lived\b", clause.text, re.IGNORECASE)),
    Rule("home_is", pattern(rf"my (?:current )?(?:home|hometown now|city|home town now) is (?:in )?{_PLACE}"),
         "fact", "{s} lives in {place}.", 0.8, tags=("personal_info", "residence"),
         profile={_LOCATION: "{place}"}, attributes={"residence": "{place}"},
         entities={"place": "place"}, guard=_place),
    Rule("grew_up", pattern(r"I (?:grew up|was raised|was born(?: and raised)?) (?P<x>(?:in|near|on) .+)$"),
         "personal", "{s} comes from a childhood {x}.", 0.5, tags=("personal_info", "origin")),
    Rule("origin", pattern(rf"(?:I am |we are |I come )(?:originally )?from {_PLACE}"), "fact",
         "{s} is from {place}.", 0.6, tags=("personal_info", "origin"), attributes={"origin": "{place}"},
         entities={"place": "place"}, guard=_place),
    Rule("used_to", pattern(r"I used to (?P<x>(?:live|work|play|be|teach|study|own|have|smoke|run) .+)$"),
         "personal", "{s} used to {x}.", 0.4, tags=("personal_info", "past")),
    # Work and study
    Rule("works_as", pattern(rf"{_ME}(?:am )?(?:work|working|employed|serve) as (?:a|an|the) {_TITLE}{_WORKPLACE}"),
         "fact", "{s} works as a {job}[ at {company}].", 0.8, tags=("personal_info", "work"),
         profile=_WORK_FIELDS, attributes=_WORK_ATTRIBUTES, entities={"company": "company"}),
    Rule("new_job", pattern(
        rf"{_ME}(?:started|began|got|took|landed|accepted|start)(?: (?:a|my) new| a| the)? "
        rf"(?:job|position|role|work|working)(?: offer)?(?: as (?:a|an|the) {_TITLE})?"
        rf"(?: (?:at|for|with|of|from) {_EMPLOYER})?(?P<rest>.*)$"),
        "fact", "{s} started a new job[ as a {job}][ at {company}].", 0.8, tags=("personal_info", "work"),
        profile=_WORK_FIELDS, attributes=_WORK_ATTRIBUTES, entities={"company": "company"}, achieves=True,
        guard=lambda groups, clause: bool(groups.get("job") or groups.get("company"))),
    Rule("joined", pattern(rf"{_ME}joined {_EMPLOYER}(?: as (?:a|an|the|their) {_TITLE})?(?P<rest>.*)$"),
         "fact", "{s} works at {company}[ as a {job}].", 0.8, tags=("personal_info", "work"),
         profile=_WORK_FIELDS, attributes=_WORK_ATTRIBUTES, entities={"company": "company"}, guard=_company),
    Rule("promoted", pattern(rf"{_ME}(?:got|was|am|been) promoted to {_TITLE}"), "fact",
         "{s} was promoted to {job}.", 0.7, tags=("personal_info", "work"), profile={_OCCUPATION: "{job}"},
         attributes={"occupation": "{job}"}, achieves=True),
    Rule("is_job", pattern(rf"{_BE}(?:a|an|the) {_TITLE}{_WORKPLACE}"), "fact",
         "{s} is a {job}[ at {company}].", 0.8, tags=("personal_info", "work"), profile=_WORK_FIELDS,
         attributes=_WORK_ATTRIBUTES, entities={"company": "company"}, guard=_job),
    Rule("job_is", pattern(rf"my (?:job|profession|occupation|day job) is (?:being )?(?:a|an|the)? ?{_TITLE}"),
         "fact", "{s} works as a {job}.", 0.8, tags=("personal_info", "work"),
         profile={_OCCUPATION: "{job}"}, attributes={"occupation": "{job}"}, guard=_job),
    Rule("studies", pattern(r"(?:I|we) (?:currently )?(?:study|major in|am studying|am majoring in|studied) "
                            r"(?P<x>(?!for\b|hard\b|a lot\b|how\b).+? at .+)$"),
         "fact", "{s} studies {x}.", 0.7, tags=("personal_info", "education")),
    Rule("works_at", pattern(rf"{_ME}(?:am )?(?:work|working|employed) (?:at|for|by) {_EMPLOYER}(?P<rest>.*)$"),
         "fact", "{s} works at {company}.", 0.7, tags=("personal_info", "work"),
         profile={_COMPANY: "{company}"}, attributes={"employer": "{company}"},
         entities={"company": "company"}, guard=_company),
    Rule("works_in", pattern(r"(?:I|we) work (?P<x>(?:in|from) (?!progress|a hurry|peace|silence)"
                             r"[^,]+)$"), "fact",
         "{s} works {x}.", 0.6, tags=("personal_info", "work")),
    Rule("retired", pattern(r"I am (?P<x>retired|unemployed|self-employed|between jobs|on (?:maternity|"
                            r"paternity|parental|sick) leave)"), "fact",
         "{s} is {x}.", 0.7, tags=("personal_info", "work"), attributes={"occupation": "{x}"}),
    # Health and food
    Rule("allergy", pattern(rf"{_BE}(?:\w+ly )?allergic to {_REST}"), "fact",
         "{s} is allergic to {x}.", 0.9, tags=("health", "food", "allergy")),
    Rule("condition", pattern(rf"I {_ADV}(?:have|have got|suffer from|was diagnosed with|am living with|"
                              rf"got diagnosed with) (?P<x>(?:\w+ ){{0,3}}?(?:{_CONDITION})\b.*)$"), "fact",
         "{s} has {x}.", 0.9, tags=("health",)),
    Rule("had_condition", pattern(rf"I (?P<x>(?:\w+ ){{0,3}}?(?:{_CONDITION})\b.*)$"), "fact",
         "{s} has {x}.", 0.9, tags=("health",),
         guard=lambda groups, clause: clause.text.lower().startswith("i have")),
    Rule("diet", pattern(rf"(?:I am|I have been|I became|I went|I turned) {_ADV}(?:a |an |strictly )?"
                         rf"(?P<x>{_TRAIT})\b(?P<rest>.*)$"),
         "fact", "{s} is {x}{rest}.", 0.8, tags=("health", "food"), attributes={"diet": "{x}"}),
    Rule("does_not_eat", pattern(r"(?:I|we) (?:do not|never|can not) (?P<verb>eat|drink|smoke) (?P<x>.+)$"),
         "fact", "{s} does not {verb} {x}.", 0.8, tags=("health", "food"),
         attributes={"consumes:{x}": "no"},
         guard=lambda groups, clause: not re.match(r"(?:much|enough|well|at)\b", groups["x"])),
    # Feedback on what the assistant wrote
    Rule("feedback", pattern(rf"(?P<x>(?:the|that|this|your|those|these) (?:last |previous |first |second )?(?:\w+ )?"
                             rf"(?:{_OUTPUT})(?: you (?:wrote|gave|sent|made|suggested|showed|proposed|"
                             r"provided)(?: me)?)?(?: (?:earlier|above|before))? (?:was|is|were|are|looks?|seems?|felt|"
                             r"feels|reads?|helped|worked|did not|does not) .+)$"),
         "feedback", "{s} on a reply: {x}.", 0.5, tags=("feedback",)),
    Rule("feedback_verdict", pattern(rf"I (?:really )?(?P<x>(?:liked?|loved?|hated?|did not like|do not like|"
                                     rf"appreciated?|found) (?:the|your|that) (?:\w+ )?(?:{_OUTPUT})\b.*)$"),
         "feedback", "{s} on a reply: they {x}.", 0.5, tags=("feedback",)),
    Rule("too_much", pattern(r"(?P<x>(?:that|this|it) (?:is|was) (?:way |far |much |a bit )?too (?:long|short|technical|"
                             r"complicated|vague|generic|simple|formal|wordy|verbose)\b.*)$"),
         "feedback", "{s} on a reply: {x}.", 0.5, tags=("feedback", "answer_style")),
    # Tastes
    Rule("favourite", pattern(r"my (?:all[- ]time |absolute |current )?favou?rite (?P<thing>.+?) (?:is|are|has always been)"
                              r" (?:definitely |probably |still )?(?P<x>.+)$"),
         "preference", "{s}'s favourite {thing} is {x}.", 0.6, tags=("preference",),
         attributes={"favourite:{thing}": "{x}"}, guard=_something),
    Rule("prefers", pattern(r"(?:I|we) (?:\w+ly |would |much |still )*(?:prefer|rather have|favor|favour) (?P<x>.+)$"),
         "preference", "{s} prefers {x}.", 0.6, tags=("preference",), style=True, guard=_something),
    Rule("dislikes", pattern(
        r"(?:I|we) (?:\w+ly |just |also |have always )*(?:hate|hated|dislike|detest|despise|loathe|can not (?:stand|bear)|"
        r"am not (?:a (?:big |huge )?fan of|into|fond of|keen on)|do not (?:\w+ly )?(?:like|enjoy|care for|love)|"
        r"never liked|have never liked) (?P<x>.+)$"),
        "preference", "{s} dislikes {x}.", 0.6, tags=("preference", "dislike"),
        attributes={"taste:{x}": "dislike"}, guard=_something),
    Rule("wants_love", pattern(r"(?:I|we) would (?:\w+ )?(?:love|like) to (?P<x>.+)$"), "goal",
         "{s} wants to {x}.", 0.6, tags=("goal",), guard=_wish),
    Rule("likes", pattern(
        rf"{_ME}(?:like|love|loved|enjoy|adore|am (?:\w+ )?into|am (?:a |an )?(?:\w+ )?fan of|am fond of|"
        r"am obsessed with|am keen on|am crazy about|am passionate about|am interested in) (?P<x>.+)$"),
        "preference", "{s} likes {x}.", 0.6, tags=("preference", "like"),
        attributes={"taste:{x}": "like"}, guard=_something),
    # Decisions
    Rule("decided", pattern(rf"{_ME}(?:decided|agreed|chose|chosen) (?P<x>(?:to|on|against|that|not to) .+)$"), "decision",
         "{s} decided {x}.", 0.7, tags=("decision",), technologies=True),
    Rule("chose", pattern(rf"{_ME}(?:chose|chosen|picked|opted for|settled on|went with|are going with|am going with|"
                          r"going with) (?P<x>.+)$"),
         "decision", "{s} chose {x}.", 0.7, tags=("decision",), guard=_something),
    Rule("will_go_with", pattern(r"(?:I will|we will|I am going to|we are going to|let's|I am gonna) (?:just |definitely )?"
                                 r"(?:go|stick|stay) with (?P<x>.+)$"),
         "decision", "{s} chose {x}.", 0.7, tags=("decision",), guard=_something),
    Rule("will_choose", pattern(r"(?:I will|we will|I am going to|we are going to|let's) (?:just |definitely )?"
                                r"(?:choose|pick|opt for|switch to|migrate to) (?P<x>.+)$"),
         "decision", "{s} chose {x}.", 0.7, tags=("decision",), guard=_something),
    # Goals
    Rule("goal_is", pattern(r"my (?:\w+[- ]?\w* ){0,2}(?:goal|aim|dream|ambition|target|objective|resolution|plan)"
                            r"(?: for [\w ]+)? is (?:to (?:be able to )?)?(?P<x>.+)$"), "goal",
         "{s}'s goal is to {x}.", 0.8, tags=("goal",)),
    Rule("wants", pattern(rf"{_ME}(?:want|hope|intend|plan|aim|wish|dream) (?:to|of) (?P<x>.+)$"), "goal",
         "{s} wants to {x}.", 0.6, tags=("goal",), guard=_wish),
    Rule("is_planning", pattern(rf"{_BE}(?P<how>trying|hoping|planning|aiming|aspiring|training|preparing|saving(?: up)?|studying|"
                                r"thinking) (?P<x>(?:to|for|of|on|about) .+)$"), "goal",
         "{s} is {how} {x}.", 0.6, tags=("goal",), achieves=False,
         guard=lambda groups, clause: not re.match(
             r"(?:to|about|of) (?:(?:understand|figure|find|see|fix|get|install|run|use|make|debug|do|call|open|log)\b|"
             r"(?:it|this|that|you|what|how)\b)", groups["x"], re.IGNORECASE)
         and (groups["how"].lower() not in ("thinking",) or " moving " in clause.text)),
    # Achievements
    Rule("achieved", pattern(
        rf"{_ME}(?:successfully )?(?P<x>(?:passed (?!on\b|out\b|by\b|away\b)|finished (?!eating|lunch|dinner|work\b)|"
        r"completed|graduated|won|achieved|reached|defended|earned|got accepted|got into|ran (?:the|a|my) \w* ?marathon|"
        r"managed to|got my (?:degree|license|licence|diploma|certificate|visa|driver)|quit smoking|hit my).*)$"),
        "fact", "{s} {x}.", 0.7, tags=("achievement",), achieves=True,
        guard=lambda groups, clause: not re.search(r"\b(?:it|that|this)$", groups["x"])),
    Rule("did_it", pattern(rf"{_ME}(?P<x>(?:ran|did|bought|made|wrote|published|launched|released|shipped|got|learned|"
                           r"learnt|climbed|visited|sold|lost|saved|paid|quit|built|read|deployed|swam|cycled) .+)$"),
         "fact", "{s} {x}.", 0.6, tags=("achievement",), achieves=True, needs_goal=True),
    # Problems and learning
    Rule("failing", pattern(r"(?:my|our) (?P<x>.+? (?:keeps? (?:\w+ing)|is (?:not working|broken|failing|crashing|stuck|"
                            r"very slow)|does not (?:work|start|connect|build|compile|load|boot|run)|do not work|"
                            r"will not (?:work|start|connect|build|compile|load|boot|run)|crash(?:es|ed)|fails?|failed|"
                            r"throws?|stopped working|is throwing|is giving me)\b.*)$"),
         "problem", "{s}'s {x}.", 0.5, tags=("problem",), profile={"facts.technical_context.challenges[]": "{x}"}),
    Rule("struggling", pattern(
        rf"{_BE}(?:stuck (?:on|with|at)|struggling (?:with|to)|having (?:\w+ )?(?:trouble|issues?|problems?|difficult(?:y|ies)|"
        r"a hard time)(?: with)?|facing|running into|dealing with|fighting with|getting|hitting|seeing) (?P<x>.+)$"),
        "problem", "{s} has a problem: {x}.", 0.5, tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
        guard=lambda groups, clause: re.search(
            r"(?:stuck|struggling|trouble|issues?|problem|difficult|error|exception|bug|crash|fail|timeout|denied|"
            r"hard time|fighting)", clause.text, re.IGNORECASE) is not None),
    Rule("hit_problem", pattern(
        r"(?:I|we) (?:have|keep|kept|ran|got|am|can not) (?P<x>(?:getting|having|seeing|into|an?|some|get) .*"
        r"(?:errors?|exceptions?|bugs?|crash(?:es)?|issues? with|problems? with|timeouts?|to work|to (?:start|connect|"
        r"build|compile|run))\b.*)$"),
        "problem", "{s} has a problem: {x}.", 0.5, tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"}),
    Rule("learning", pattern(rf"{_BE}(?:learning|studying|teaching myself|taking (?:a|an) (?:course|class) (?:on|in|about)|"
                             r"getting into|self-studying) (?:about |how to )?(?P<x>.+)$"),
         "learning", "{s} is learning {x}.", 0.5, tags=("learning",),
         guard=lambda groups, clause: not re.match(r"(?:for|a lot|hard|from|that)\b", groups["x"])),
    Rule("learned", pattern(rf"{_ME}(?:learned|learnt|taught myself|figured out|discovered|found out) "
                            r"(?P<x>(?:how to|that|about|to) .+)$"),
         "learning", "{s} learned {x}.", 0.5, tags=("learning",), achieves=True,
         guard=lambda groups, clause: not re.match(r"about (?:it|this|that|you)\b", groups["x"])),
    # Projects, plans, appointments
    Rule("project", pattern(
        rf"{_ME}(?:am |are )?(?P<how>working on|building|developing|writing|creating|designing|making|launching|organi[sz]ing|"
        r"renovating|preparing) (?P<x>(?:a|an|my|our|the|some|two|three) .+)$"),
        "context", "{s} is {how} {x}.", 0.6, tags=("project",), technologies=True,
        guard=lambda groups, clause: not re.match(r"(?:a mistake|the same|some (?:food|dinner|coffee|tea))",
                                                  groups["x"])),
    Rule("project_is", pattern(r"my (?:current |side |main |new |latest )*project (?:is|is about|involves) (?P<x>.+)$"), "context",
         "{s}'s current project is {x}.", 0.6, tags=("project",), technologies=True),
    Rule("appointment", pattern(rf"(?:I|we) (?:also )?(?:have|have got|got) (?P<x>(?:a|an|my|our|the|two|three|another|surgery|exams|"
                                rf"finals)\b(?:.*?\b(?:{_APPOINTMENT})s?\b)?.*)$"),
         "context", "{s} has {x}.", 0.6, tags=("schedule",),
         guard=lambda groups, clause: re.search(rf"\b(?:{_APPOINTMENT})", groups["x"], re.IGNORECASE) is not None),
    Rule("deadline", pattern(rf"(?:my|our|the) (?P<x>(?:\w+ ){{0,2}}(?:{_APPOINTMENT})s? (?:is|are|starts?) (?:due )?"
                             r"(?:(?:on|at|in|for|by|scheduled|set) .+|due.*))$"),
         "context", "{s}'s {x}.", 0.6, tags=("schedule",)),
    Rule("travelling", pattern(
        r"(?:I am|we are) (?:going to )?(?P<x>(?:fly|flying|travel|travell?ing|going|heading|driving|moving|visiting|starting|"
        r"leaving|presenting|giving|hosting|attending|move|visit|start|attend|present) "
        r"(?:to |for |at |on |a |an |my |our |the )?(?!bed\b|sleep\b|insane\b|crazy\b).+)$"),
        "context", "{s} is {x}.", 0.6, tags=("travel", "schedule"),
        guard=lambda groups, clause: re.match(
            r"(?:fly|travel|moving|heading|visiting|attending|move|visit|attend|going to [A-Z]|going on (?:a |holiday|vacation))",
            groups["x"]) is not None),
    # Family, pets, life
    Rule("relative", pattern(
        rf"(?:my|our) (?P<x>(?:\w+ )?(?:{_RELATIVE}|{_PET})(?:,? (?!is\b|are\b|has\b)[^\s,]+,?)? (?:is|are|has|have|works?|lives?|"
        r"turned|was born|plays?|studies|studied|likes?|loves?|hates?|goes|just turned|speaks?|teaches) "
        r"(?!(?:driving|making|getting|asking|telling|coming|going|always|not)\b).+)$"),
        "personal", "{s}'s {x}.", 0.6, tags=("family",)),
    Rule("has_family", pattern(rf"(?:I|we) (?:also )?(?:have|have got|own|adopted|got|just (?:got|adopted)) (?P<x>(?:an?|one|two|three|four|five|"
                               rf"six|\d+|twin|our|some|no) (?:\w+[- ]){{0,3}}?(?:{_RELATIVE}|{_PET})\b.*)$"),
         "personal", "{s} has {x}.", 0.6, tags=("family",)),
    Rule("marriage", pattern(r"(?:I|we) (?:just |recently |have )*(?P<x>(?:got|are getting|am getting) (?:married|engaged|divorced)|"
                             r"became (?:a )?(?:parents?|father|mother|dad|mom|mum)|had (?:a|our|my) (?:\w+ )?baby)\b(?P<rest>.*)$"),
         "personal", "{s} {x}{rest}.", 0.7, tags=("family",), achieves=True),
    Rule("marital", pattern(r"(?:I am|we are|I have been) (?:\w+ly )?(?P<x>married|single|engaged|divorced|widowed|pregnant|"
                            r"expecting (?:a|our|my) \w*)\b(?P<rest>.*)$"),
         "personal", "{s} is {x}{rest}.", 0.7, tags=("family",),
         guard=lambda groups, clause: "engaged in" not in clause.text.lower()),
    Rule("birthday", pattern(r"my birthday is (?:on |in )?(?P<x>.+)$"), "personal", "{s}'s birthday is {x}.", 0.8,
         tags=("personal_info", "birthday"), attributes={"birthday": "{x}"},
         guard=lambda groups, clause: not re.match(r"(?:coming|soon|near|over|not)\b", groups["x"])),
    Rule("age", pattern(r"I (?:am|just turned|turned|have turned) (?P<x>\d{1,2})(?: years? old| yo| now)?(?:$|,.*$)"), "personal",
         "{s} is {x} years old.", 0.7, tags=("personal_info", "age"), attributes={"age": "{x}"}),
    Rule("hobby", pattern(r"(?:I|we) (?:\w+ly |also |often |sometimes |always )*(?P<verb>play|collect|practi[cs]e|volunteer|sing|coach|"
                          r"paint|knit|garden|meditate|brew|bake|dance) (?P<x>.+)$"), "personal",
         "{s} {verb:s} {x}.", 0.5, tags=("hobby",), guard=_something),
    Rule("kind_of_person", pattern(r"I am (?P<x>(?:an?|the) (?:\w+ ){0,2}(?:person|owl|introvert|extrovert|parent|mother|father|mom|mum|"
                                   r"dad|twin|widower?|native speaker|early bird|only child))\b(?P<rest>.*)$"),
         "personal", "{s} is {x}{rest}.", 0.5, tags=("personal_info",)),
    # Tools and languages
    Rule("uses", pattern(
        rf"{_ME}(?:am |are )?(?:use|using|work with|working with|code in|coding in|program in|programming in|write|writing|"
        r"develop in|develop with|switched to|rely on|run|deploy with|host on) (?P<x>.+)$"),
        "fact", "{s} uses {x}.", 0.6, tags=("tools",), technologies=True, guard=_technical),
    Rule("experience", pattern(r"I (?:have )?(?P<x>(?:\w+ )?(?:years? of )?(?:\w+ )?(?:experience|background) (?:with|in) .+)$"), "fact",
         "{s} has {x}.", 0.6, tags=("work",), technologies=True),
    Rule("speaks", pattern(r"(?:I|we) (?:\w+ly |also |can |only )*speak (?P<x>(?!to\b|with\b|for\b|about\b|up\b).+)$"), "fact",
         "{s} speaks {x}.", 0.6, tags=("language",)),
    Rule("mother_tongue", pattern(r"my (?:native language|first language|mother tongue) is (?P<x>.+)$"), "fact",
         "{s}'s native language is {x}.", 0.7, tags=("language",), attributes={"mother_tongue": "{x}"}),
    Rule("drives", pattern(r"(?:I|we) (?P<verb>drive|ride|own|commute) (?P<x>(?:a|an|two|by|to work|my own) .+)$"), "fact",
         "{s} {verb:s} {x}.", 0.4, tags=("personal_info",)),
    # Last, because "I am …" opens so much else
    Rule("introduction", pattern(rf"(?:I am|this is) {words('name', _STOPS, 3)}(?: here)?(?:$|,.*$| from .*$)"), "fact",
         "{s}'s name is {name}.", 0.9, "medium", tags=("personal_info", "name"), profile={_NAME: "{name}"},
         attributes={"name": "{name}"}, guard=_introduction, entities={"name": "person"}),
)  # fmt: skip
