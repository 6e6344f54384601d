"""The forms of English words: what an achievement and a goal have in common."""

from __future__ import annotations

_IRREGULAR = {
    form: base
    for line in (
        "beat beaten beat|become became|begin began begun|break broke broken|bring brought"
        "|build built|buy bought|catch caught|choose chose chosen|come came|do did done|draw drew"
        " drawn|drive drove driven|eat ate eaten|fight fought|find found|fly flew flown|get got"
        " gotten|give gave given|go went gone|grow grew grown|have had|hold held|keep kept|knit"
        " knitted|lead led|leave left|learn learnt|lose lost|make made|meet met|pay paid|ride rode"
        " ridden|rise rose risen|run ran|sail sailed|say said|see saw seen|sell sold|send sent|sew"
        " sewn|sing sang sung|sleep slept|speak spoke spoken|spend spent|stand stood|swim swam swum"
        "|take took taken|teach taught|tell told|throw threw thrown|wake woke woken|wear wore worn"
        "|win won|write wrote written"
    ).split("|")
    for base, *forms in [line.split()]
    for form in forms
}
_ENDINGS = ("ing", "ed", "es", "s", "e")


def stem(word: str) -> str:
    """What is left of a lower-case word without its ending: ride, rode and riding are one."""
    word = _IRREGULAR.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
