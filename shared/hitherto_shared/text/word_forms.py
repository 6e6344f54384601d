"""The forms of a word: those that a stem joins, and English ones that no stem joins.

A stemmer removes endings, so that "lives" finds "living". It leaves "bought" apart from "buy",
"children" from "child", "colour" from "color" and "two" from "2". Such forms are looked up
together, and count as one term in BM25. Nothing of this is in the index.
"""

from __future__ import annotations

import threading

import Stemmer

_local = threading.local()


def stem(word: str, language: str = "english") -> str:
    """The common stem of a word's forms; safe in any thread."""
    # A Stemmer keeps a working buffer and must not be shared between threads.
    stemmer = getattr(_local, language, None)
    if stemmer is None:
        stemmer = Stemmer.Stemmer(language)
        setattr(_local, language, stemmer)
    return str(stemmer.stemWord(word))


# Left out: words that a question drops (did, had), forms that are equal (cut, put), and those that
# are more common as another word (bore, bound, dove, ground, lay, leaves, lives, rose, spring,
# tire, wound).
_IRREGULAR_VERBS = """
arise arose arisen, awake awoke awoken, beat beaten, become became, begin began begun, bend bent,
bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred, bring brought,
build built, burn burnt, buy bought, catch caught, choose chose chosen, cling clung, come came,
creep crept, deal dealt, dig dug, draw drew drawn, dream dreamt, drink drank drunk,
drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found,
flee fled, fly flew flown, forbid forbade forbidden, foresee foresaw foreseen,
forget forgot forgotten, forgive forgave forgiven, freeze froze frozen, get got gotten,
give gave given, go goes went gone, grow grew grown, hang hung, hear heard, hide hid hidden,
hold held, keep kept, kneel knelt, know knew known, lead led, lean leant, leap leapt,
learn learnt, leave left, lend lent, light lit, lose lost, make made, mean meant, meet met,
mislead misled, mistake mistook mistaken, misunderstand misunderstood, outgrow outgrew outgrown,
overcome overcame, oversleep overslept, pay paid, plead pled, prove proven, rebuild rebuilt,
rethink rethought, rewrite rewrote rewritten, ride rode ridden, ring rang rung, rise risen,
run ran, say said, see saw seen, seek sought, sell sold, send sent, sew sewn, shake shook shaken,
shine shone, shoot shot, show shown, shrink shrank shrunk, sing sang sung, sink sank sunk, sit sat,
slay slew slain, sleep slept, slide slid, smell smelt, sneak snuck, sow sown, speak spoke spoken,
speed sped, spell spelt, spend spent, spill spilt, spin spun, spit spat, spoil spoilt,
stand stood, steal stole stolen, stick stuck, sting stung,
stride strode stridden, strike struck stricken, strive strove striven, swear swore sworn,
sweep swept, swell swollen, swim swam swum, swing swung, take took taken, teach taught,
tear tore torn, tell told, think thought, throw threw thrown, tread trod trodden,
undergo undergoes underwent undergone, understand understood, undertake undertook undertaken,
unwind unwound, uphold upheld, wake woke woken, wear wore worn, weave wove woven, weep wept,
win won, withdraw withdrew withdrawn, withhold withheld, withstand withstood, write wrote written
"""
_IRREGULAR_NOUNS = """
analysis analyses, calf calves, child children, crisis crises, criterion criteria,
diagnosis diagnoses, foot feet, goose geese, half halves, hypothesis hypotheses, knife knives,
loaf loaves, man men, mouse mice, person people, phenomenon phenomena,
shelf shelves, thief thieves, tooth teeth, wife wives, wolf wolves, woman women
"""
_SPELLINGS = """
airplane aeroplane, behavior behaviour, catalog catalogue, center centre, color colour, cozy cosy,
defense defence, dialog dialogue, favor favour, favorite favourite, flavor flavour, gray grey,
harbor harbour, honor honour, humor humour, jewelry jewellery, labor labour, license licence,
liter litre, meter metre, mold mould, mom mum, mustache moustache, neighbor neighbour,
offense offence, organize organise, pajamas pyjamas, plow plough, practice practise,
program programme, realize realise, recognize recognise, rumor rumour, skeptical sceptical,
specialty speciality, theater theatre
"""
_NUMBERS = """
two 2, three 3, four 4, five 5, six 6, seven 7, eight 8, nine 9, ten 10, eleven 11, twelve 12
"""
WORDS = [
    tuple(dict.fromkeys(stem(form) for form in forms.split()))
    for table in (_IRREGULAR_VERBS, _IRREGULAR_NOUNS, _SPELLINGS, _NUMBERS)
    for forms in table.split(",")
]
"""The stems of the forms of each word, its headword first."""
_FORMS = {form: forms for forms in WORDS for form in forms}


def forms(term: str) -> tuple[str, ...]:
    """The stems of all forms of the word that `term` is a stem of, its headword first."""
    return _FORMS.get(term) or (term,)
