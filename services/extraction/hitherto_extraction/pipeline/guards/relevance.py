"""Decides whether messages support the end of a memory.

A model that closes a memory names messages. One of them must be about the subject of the memory and
differ from it: it denies the memory, ends it, states its opposite, or replaces it. Otherwise the
memory stays, because a model cannot know what the messages do not say.

The comparison uses words, up to inflection, and a few matters of which a person has only one
(`_MATTERS`). A message that says the same in quite different words is not recognised; then old and
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
from hitherto_shared.vocabulary.opposites import alternatives, index_of, markers, mentions, opposed

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

_MATTERS = (
    (
        "live lives lived living reside resides resided residing based home house flat apartment "
        "move moves moved moving relocate relocates relocated relocating settled address sống "
        "chuyển chuyển_nhà cư_trú thường_trú nhà_ở vive vivo vivía mudé mudó mudado habite habité "
        "déménagé wohnt wohne umgezogen lebt lebe mora moro abita abito живёт живу переехал "
        "переехала أعيش يعيش أسكن يسكن انتقلت",
        "住 搬 引っ越 살고 살아 이사 อยู่ที่ ย้าย",
    ),
    (
        "work works worked working job jobs employed employer employee career occupation "
        "profession retire retires retired hired fired resigned position role self-employed "
        "freelance làm_việc nghề nghỉ_hưu nghỉ_việc thất_nghiệp công_ty trabajo trabaja trabajaba "
        "jubilado jubilada travaille travaillait retraite arbeitet arbeite rente lavora lavoro "
        "trabalha trabalho работает работаю уволился уволилась أعمل يعمل وظيفة",
        "工作 上班 退休 辞职 働 仕事 退職 일하 직장 퇴사 ทำงาน",
    ),
    (
        "vegetarian vegetarians vegan vegans pescatarian meat steak diet ăn_chay ăn_mặn "
        "thuần_chay thịt vegetariano vegetariana vegano végétarien végétarienne vegetarisch "
        "fleisch carne viande мясо نباتي",
        "素食 吃素 吃肉 ベジタリアン 채식 มังสวิรัติ",
    ),
    (
        "married marries marry wedding wed single engaged divorced widowed separated girlfriend "
        "boyfriend fiancé fiancée kết_hôn cưới ly_hôn ly_dị độc_thân chia_tay đính_hôn casado "
        "casada soltero soltera divorciado divorciada marié mariée divorcé divorcée verheiratet "
        "geschieden ledig женат замужем развёлся развелась متزوج متزوجة",
        "结婚 離婚 离婚 单身 独身 결혼 이혼 แต่งงาน",
    ),
    (
        "study studies studied studying student university college graduate graduates graduated "
        "sinh_viên đại_học tốt_nghiệp estudia estudiante étudie étudiant studiert student студент "
        "студентка учится",
        "大学 毕业 学生 卒業 대학 졸업 เรียน",
    ),
    (
        "name named called tên gọi nombre llama nom appelle heißt имя зовут اسمي",
        "名字 名前 이름 ชื่อ",
    ),
)
"""Matters of which a person has one and which change: home, work, partner, diet, school, name.

"We moved to Lisbon" and "lives in Porto" share no word and are about one matter, as are "retired"
and "works as a nurse". The lists are deliberately small and closed. Each has words, an underscore
joining those of a phrase, and signs of scripts without spaces."""
_INDEX = index_of([[words] for words, _ in _MATTERS])
_ENDING = frozenset(
    "stop stops stopped stopping quit quits left leave leaves sold sell ended finished done "
    "cancel cancelled canceled dropped gave giving given switched switch moved retired resigned "
    "lost lose broke broken changed change replaced replace returned anymore instead gone died "
    "passed wrong mistaken outdated former formerly previously ex "
    "bỏ nghỉ thôi hết ngừng dừng chuyển đổi bán mất hủy huỷ xong nhầm sai "
    "dejé dejado dejó vendí vendido cambié cambiado arrêté quitté vendu changé fini "
    "aufgehört verkauft gekündigt gewechselt verloren beendet smesso venduto parei vendi "
    "бросил бросила продал продала сменил сменила перестал перестала ушёл ушла больше "
    "توقفت تركت بعت غيرت".split()
)
_ENDING_SIGNS = (
    "不再 放弃 卖 换 辞 搬 停 戒 分手 やめ 辞め 売 引っ越 別れ 그만 팔았 바꿨 끊 เลิก ขาย ย้าย หยุด"
).split()


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


def matters(words: Sequence[str], signs: str) -> set[int]:
    """The matters that a text is about.

    Args:
        words: Its words, casefolded.
        signs: Its characters of scripts without spaces.
    """
    stated = {
        number
        for number, (_, roots) in enumerate(_MATTERS)
        if signs and any(root in signs for root in roots.split())
    }
    return stated | mentions(words, _INDEX).keys()


def signals_an_end(words: Sequence[str], signs: str) -> bool:
    """Whether a text says that something stopped, or became something else."""
    return not _ENDING.isdisjoint(words) or any(root in signs for root in _ENDING_SIGNS if signs)
