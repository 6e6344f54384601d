"""Selects which of a model's questions about a memory are kept.

Questions are indexed by their words and never shown. A question must have the form of one and be
about the memory: it shares a word with the memory and contains no name that the memory lacks. In
scripts that do not mark names, the memory must contain part of the words: half of them, a third of
the characters that follow one another without spaces, and every run of katakana, which spells
names.

Questions are judged by the words of the memory alone, so that the result depends on nothing else
whenever these words change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hitherto_extraction.pipeline.guards.support import JoinedWords, content, unspaced
from hitherto_extraction.pipeline.guards.tokens import NUMBER, UNCASED, Token, tokenise
from hitherto_shared.text.instructions import reads_as_instruction

MAX_QUESTIONS = 3
MAX_CHARACTERS = 120
_MARKS = ("?", "？", "؟", "՞")
_GREEK = re.compile("[\u0370-\u03ff]")
_WORD = re.compile(r"\w+")
_KATAKANA = re.compile("[\u30a1-\u30ff]{2,}")
# First words of questions; any other first word may be a name.
_ASKING = frozenset(
    "what whats what's which how why whom when where who whose did does do is are was were has "
    "have had can could should would will since until in on at for from with by about to and "
    "bao nhiêu mấy ai gì khi vì sao tại thế nào ở từ lúc hồi có phải "
    "wer wie was wann wo warum wieso weshalb welche welcher welches welchen welchem woher wohin "
    "womit wofür woran seit hat haben kann "
    "où quand comment pourquoi combien quel quelle quels quelles qu'est est-ce depuis que qui "
    "quoi à "
    "qué quién quiénes cómo cuándo dónde cuánto cuánta cuántos cuántas cuál cuáles desde por ¿ "
    "che chi come quando dove perché quanto quanta quanti quante quale quali da "
    "quem onde quais qual porque "
    "wat waar wanneer waarom hoe welke hoeveel sinds "
    "co kto kiedy gdzie dlaczego jak jaki jaka jakie ile czy od "
    "что кто когда где почему зачем как какой какая какое какие каких сколько чем куда откуда "
    "ли с чей чья чьё".split()
)


def kept(questions: Iterable[str], *texts: str) -> tuple[str, ...]:
    """The first `MAX_QUESTIONS` distinct questions about the contents of the texts.

    Args:
        questions: In the model's words, one line each.
        texts: The memory's texts.
    """
    different = {question.casefold(): question for question in questions if _may_be(question)}
    if not different:
        return ()
    said = "\n".join(texts)
    heard = JoinedWords.of(said)
    found = (question for question in different.values() if _is_about(question, heard, said))
    return tuple(question for question, _ in zip(found, range(MAX_QUESTIONS), strict=False))


def _may_be(question: str) -> bool:
    mark = question.endswith(_MARKS) or (question.endswith(";") and _GREEK.search(question))
    return bool(mark) and len(question) <= MAX_CHARACTERS and not reads_as_instruction(question)


def _is_about(question: str, heard: JoinedWords, said: str) -> bool:
    tokens = tokenise(question)
    words, strange = content(tokens), heard.lacking(tokens)
    if any(_is_name(each) for each in strange) or heard.lacking_numbers(tokens):
        return False
    codes = [word for word in _WORD.findall(question) if any(map(str.isdigit, word))]
    if any(run not in said for run in [*_KATAKANA.findall(question), *codes]):
        return False
    run = unspaced(tokens)
    pairs = [one + two for one, two in pairwise(run)]
    shared = sum(map(heard.has_term, pairs))
    if 3 * shared < len(pairs) or 2 * _uncased(strange) > _uncased(words):
        return False
    numbers = any(each.kind == NUMBER for each in tokens)
    return len(strange) < len(words) or shared > 0 or numbers


def _is_name(token: Token) -> bool:
    return token.capital and not (token.first and token.lower in _ASKING)


def _uncased(tokens: Sequence[Token]) -> int:
    return sum(token.kind == UNCASED for token in tokens)
