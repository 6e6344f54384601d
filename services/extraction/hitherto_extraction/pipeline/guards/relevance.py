"""Decides whether messages support the end of a memory.

A model that closes a memory names messages. One of them must be about the subject of the memory and
differ from it: it denies the memory, ends it, states its opposite, or replaces it. Otherwise the
memory stays, because a model cannot know what the messages do not say.

The comparison uses words, up to inflection, and a few matters of which a person has only one
(`topics`). A message that says the same in quite different words is not recognised; then old and
new memory coexist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hitherto_extraction.pipeline.guards.slots import SAME_AS
from hitherto_extraction.pipeline.guards.subjects import subject
from hitherto_extraction.pipeline.guards.support import (
    JOINING_SIGNS,
    JoinedWords,
    content,
    unspaced,
)
from hitherto_extraction.pipeline.guards.tokens import (
    UNCASED,
    WORD,
    Token,
    clauses,
    kept_for_a_while,
    tokenise,
)
from hitherto_extraction.pipeline.guards.topics import matters, signals_an_end
from hitherto_shared.vocabulary.opposites import alternatives, markers, opposed

_LONGEST_CLAUSE = 2_000
_ENOUGH = 2
"""Number of a memory's content words that is enough to be about it, however long it is."""
_SIGNS_ALIKE = 1 / 3
_WISHES = frozenset(
    "want wants wanted plan plans planned planning goal goals hope hopes intend intends would like "
    "aim aims wish wishes get got muốn mục tiêu dự định quiere veut möchte will хочет يريد تريد "
    "أريد".split()
)
"""Words that turn a deed into a goal."""
_DID = frozenset(
    "did done made managed finished finally reached succeeded achieved accomplished completed got "
    "xong được rồi đạt logré conseguí réussi geschafft consegui riuscito riuscita удалось "
    "получилось сделал сделала".split()
)
_POINTING = frozenset(
    "làm nó lo eso esto he ya ich habe es das je j'ai ai l'ai ça cela ho l'ho eu isso я у меня "
    "это".split()
)
"""Words that, like those of `_DID`, only refer to what was said before."""
_STOPPING = frozenset(
    "stop stopping quit quitting cease bỏ cai ngừng dừng dejar arrêter aufhören smettere parar "
    "бросить перестать".split()
)
"""Words with which a goal is to stop doing something."""


@dataclass(frozen=True, slots=True)
class _ComparedText:
    """A statement or a clause of a message, prepared for comparison.

    Attributes:
        heard: Its words up to inflection.
        own: Its content words without the subject, in order.
        words: All of them, casefolded.
        signs: Its characters of scripts without spaces, except those that only join.
        denies: Whether it denies something or says that it ended.
    """

    heard: JoinedWords
    tokens: tuple[Token, ...]
    own: tuple[Token, ...]
    words: tuple[str, ...]
    signs: str
    denies: bool

    @property
    def ends(self) -> bool:
        """Whether it says that something stopped or became something else."""
        return signals_an_end(self.words, self.signs)

    @property
    def did(self) -> bool:
        """Whether it says that something is done."""
        return not _DID.isdisjoint(self.words)

    @property
    def points(self) -> bool:
        """Whether it only refers to what was said before: "I stopped that", "not anymore"."""
        return not self.signs and all(
            token.lower in _DID | _POINTING or signals_an_end([token.lower], "")
            for token in self.own
        )

    @property
    def matters(self) -> set[int]:
        """The matters that it is about."""
        return matters(self.words, self.signs)


def ends(
    old: str,
    messages: Sequence[str],
    said: JoinedWords,
    successor: str | None,
    around: Sequence[str] = (),
) -> bool:
    """Whether messages support that a statement no longer holds.

    Args:
        old: The statement.
        messages: The messages.
        said: The same, parsed.
        successor: What replaces it, if anything.
        around: The rest of the conversation, which shows what "that" refers to.
    """
    before = _read(old)
    if successor is not None and said.bears_out(successor, old):
        after = _read(successor)
        if _says_more(after, before) and (_same_thing(before, after) or _opposed(before, after)):
            return True
    clauses = list(_clauses(messages))
    return any(_ends(before, clause) for clause in clauses) or (
        any((clause.denies or clause.ends) and clause.points for clause in clauses)
        and any(_is_about(before, clause) for clause in _clauses(around))
    )


def reaches(
    goal: str,
    messages: Sequence[str],
    said: JoinedWords,
    successor: str | None,
    around: Sequence[str] = (),
) -> bool:
    """Whether messages support that a goal is achieved; for the arguments see `ends`."""
    wanted = _read(goal)
    if (
        successor is not None
        and said.bears_out(successor, goal)
        and _is_about(wanted, _read(successor))
    ):
        return True
    clauses = list(_clauses(messages))
    return any(_agrees(wanted, clause) and _is_about(wanted, clause) for clause in clauses) or (
        any(not clause.denies and clause.points and clause.did for clause in clauses)
        and any(_is_about(wanted, clause) for clause in _clauses(around))
    )


def _agrees(wanted: _ComparedText, clause: _ComparedText) -> bool:
    """Whether a clause denies what a goal ends: "I don't smoke" for "wants to stop smoking"."""
    if clause.denies == wanted.denies:
        return True
    stopping = [token for token in wanted.own if token.lower in _STOPPING]
    # "I did not stop smoking" contains the deed and denies it.
    unsaid = clause.heard.lacking(stopping)
    return clause.denies and bool(stopping) and len(unsaid) == len(stopping)


def _clauses(messages: Sequence[str]) -> Iterator[_ComparedText]:
    for message in messages:
        for clause in clauses(message):
            yield _read(clause[:_LONGEST_CLAUSE])


@kept_for_a_while(4_096)
def _read(text: str) -> _ComparedText:
    tokens = tuple(tokenise(text))
    person, _ = subject(tokens, loose=False)
    whom = set(person) if person is not None and len(person) == 1 else set[str]()
    words = tuple(token.lower for token in tokens if token.kind in (WORD, UNCASED))
    return _ComparedText(
        heard=JoinedWords.of(text),
        tokens=tokens,
        own=tuple(t for t in content(tokens) if t.lower not in whom | _WISHES),
        words=words,
        signs=unspaced(tokens).translate(JOINING_SIGNS),
        denies=not {"not", "no longer"}.isdisjoint(markers(words)),
    )


def _ends(before: _ComparedText, clause: _ComparedText) -> bool:
    """Whether a clause denies a statement, ends it, or gives another value in its place."""
    if _opposed(before, clause):
        return True
    over = clause.denies != before.denies or clause.ends
    if over and _names_only(clause, before):
        return True
    if not _is_about(before, clause):
        return False
    if over:
        return True
    begins_alike = bool(before.own) and not clause.heard.lacking(before.own[:1])
    return (
        (begins_alike or bool(before.matters & clause.matters))
        and _says_more(clause, before)
        and _says_more(before, clause)
    )


def _names_only(clause: _ComparedText, before: _ComparedText) -> bool:
    """Whether a clause has only words of a statement, and words for how it ended."""
    rest = [t for t in clause.own if t.lower not in _DID and not signals_an_end([t.lower], "")]
    return bool(rest) and not clause.signs and not before.heard.lacking(rest)


def _opposed(before: _ComparedText, after: _ComparedText) -> bool:
    """Whether two texts name two sides of a contrast, and what is on each side, if anything."""
    if not opposed(before.words, after.words):
        return False
    groups = alternatives(before.words).keys() & alternatives(after.words).keys()
    rest = [t for t in before.own if not groups & alternatives([t.lower]).keys()]
    return len(after.heard.lacking(rest)) < max(1, len(rest))


def _same_thing(before: _ComparedText, after: _ComparedText) -> bool:
    """Whether two statements are about one thing: the second contains half of the first."""
    if before.matters & after.matters or _alike(before.signs, after.signs):
        return True
    if not before.own:
        return not before.signs
    return 2 * _shared(before, after) >= len(before.own)


def _is_about(before: _ComparedText, clause: _ComparedText) -> bool:
    """Whether a clause is about the subject of a statement."""
    if before.matters & clause.matters or _alike(before.signs, clause.signs):
        return True
    shared = _shared(before, clause)
    return shared > 0 and (shared >= _ENOUGH or 2 * shared >= len(before.own))


def _shared(before: _ComparedText, after: _ComparedText) -> int:
    """How many words of a statement another text contains, in any form."""
    forms = {SAME_AS[word] for word in after.words if word in SAME_AS}
    missing = after.heard.lacking(before.own)
    return len(before.own) - sum(SAME_AS.get(token.lower) not in forms for token in missing)


def _alike(one: str, other: str) -> bool:
    """Whether one text contains enough of the characters of another."""
    shared = sum(sign in other for sign in one)
    return shared > 0 and shared >= _SIGNS_ALIKE * len(one)


def _says_more(one: _ComparedText, other: _ComparedText) -> bool:
    """Whether one text has a word, number or character that the other lacks."""
    return bool(
        other.heard.lacking(one.own)
        or other.heard.lacking_numbers(one.tokens)
        or set(one.signs) - set(other.signs)
    )
