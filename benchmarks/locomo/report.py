"""What the scores of one embedder come to: figures with intervals, other rankings, and bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.comparison import difference, mean, with_interval
from benchmarks.locomo.answers import BALANCED, BOTH, COSINE, FACTS, MESSAGES, QuestionScore
from benchmarks.locomo.blocks import BLOCK, BUDGETS, ContextFigures
from benchmarks.locomo.blocks import COSINE as COSINE_LIST
from benchmarks.locomo.content import FIRST
from benchmarks.locomo.data import LOCOMO
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.report import FigureTable, JudgedBar, ResultPart, RowScore, sections

METRICS = {"recall_10": "R@10", "recall_5": "R@5", "ndcg_10": "nDCG@10"}
"""What a score is made of, and how it is called."""
_OF_RANKINGS = ("recall_10", "ndcg_10")
"""The metrics of other rankings."""
_GAIN = 0.08
"""How far the default ranking must stand above cosine alone, on facts."""
_WITH_MODEL = {
    f"{FACTS} R@10": (0.69, 0.72),
    f"{FACTS} nDCG@10": (0.60, 0.62),
    f"{MESSAGES} R@10": (0.81, 0.85),
}
_WITHOUT = {f"{FACTS} R@10": (0.65, None), f"{MESSAGES} R@10": (0.79, None)}
"""Bars, and aims above them, with an embedding model and without one."""
_BLOCK_WITH_MODEL = (0.80, 0.86, 0.91, 0.94)
_BLOCK_WITHOUT = (0.76, 0.82, 0.88, 0.91)
"""The share of the evidence in the block, at each of `BUDGETS`."""
_FIRST = 0.55
"""The share of questions of which an answering part stands in the first tokens of a block."""


def locomo_part(run: EmbedderRun) -> ResultPart:
    """Everything that one embedder came to."""
    title = f"{run.data} with {run.embedder}"
    scores: dict[str, RowScore] = {}
    of_rankings: dict[str, float] = {}
    for corpus, variants in run.scores.items():
        for variant, of_questions in variants.items():
            for metric, called in METRICS.items():
                score = metric_of(of_questions, metric, names_rows=metric == "recall_10")
                if variant == BALANCED.name:
                    scores[f"{corpus} {called}"] = score
                else:
                    of_rankings[f"{corpus} {called}, {variant}"] = mean(score)
    tables = [_quality(title, run), _rankings(title, run)] if run.scores else []
    if run.told:
        of_blocks = block_scores(run.told)
        said = said_scores(run.told)
        scores |= of_blocks | said
        tables = [
            *_said_tables(title, run, said),
            *_block_tables(title, run.told, of_blocks),
            *tables,
        ]
    return ResultPart(
        title=title,
        figures={name: mean(score) for name, score in scores.items()} | of_rankings,
        tables=tables,
        bars=list(_bars(run, scores)),
        notes=_notes(run),
        rows=[question.id for question in run.questions],
        scores=scores,
        row_word="questions",
    )


def metric_of(
    scores: Sequence[QuestionScore], metric: str, *, names_rows: bool = False
) -> RowScore:
    """One metric of every question."""
    return RowScore([getattr(score, metric) for score in scores], names_rows=names_rows)


def block_scores(told: ContextFigures) -> dict[str, RowScore]:
    """The share of the evidence in each kind of list at each budget; see `_block_name`."""
    found = {}
    for name, by_budget in told.covered.items():
        for budget, covered in by_budget.items():
            found[_block_name(name, budget)] = RowScore(covered)
    return found


_DEFAULT = "default block says"
_FIRST_OF = "first lines of"


def said_scores(told: ContextFigures) -> dict[str, RowScore]:
    """What each kind of list says of the answers at each budget, and first of all."""
    found = {
        f"says: {_block_name(name, budget)}": RowScore(list(shares))
        for name, by_budget in told.says.items()
        for budget, shares in by_budget.items()
    }
    found[_DEFAULT] = RowScore(list(told.default))
    for name, having in told.first.items():
        found[f"{_FIRST_OF} {name}"] = RowScore([float(each) for each in having])
    return found


def _said_tables(
    title: str, run: EmbedderRun, scores: Mapping[str, RowScore]
) -> tuple[FigureTable, FigureTable]:
    told = run.told
    assert told is not None
    rows = [
        (
            name,
            *(with_interval(scores[f"says: {_block_name(name, each)}"]) for each in BUDGETS),
            with_interval(scores[f"{_FIRST_OF} {name}"]),
        )
        for name in told.says
    ]
    budgets = [f"{budget:,}" for budget in BUDGETS]
    by_category: dict[str, list[int]] = {}
    for number, question in enumerate(run.questions):
        by_category.setdefault(question.category, []).append(number)

    def row(name: str, numbers: Sequence[int]) -> tuple[str, ...]:
        def share(of: Sequence[float]) -> str:
            return f"{sum(of[number] for number in numbers) / len(numbers):.3f}"

        tokens = sum(told.default_tokens[number] for number in numbers) / len(numbers)
        filled = [share(told.says[BLOCK][budget]) for budget in BUDGETS]
        return (name, str(len(numbers)), *filled, share(told.default), f"{tokens:,.0f}")

    everything = list(range(len(run.questions)))
    categories = [row(name, numbers) for name, numbers in sorted(by_category.items())]
    return (
        FigureTable(
            f"{title}: the share of the answering parts that so many tokens say",
            ("list", *budgets, f"some in the first {FIRST}"),
            rows,
        ),
        FigureTable(
            f"{title}: the same by category, filled and by default",
            ("category", "questions", *budgets, "default", "its tokens"),
            sections([[row("all", everything)], categories]),
        ),
    )


def _block_name(name: str, budget: int) -> str:
    return f"{name}, {budget:,} tokens"


def _block_tables(
    title: str, told: ContextFigures, scores: Mapping[str, RowScore]
) -> tuple[FigureTable, FigureTable]:
    budgets = [f"{budget:,}" for budget in BUDGETS]
    rows = []
    for name in told.covered:
        said = (with_interval(scores[_block_name(name, budget)]) for budget in BUDGETS)
        rows.append((name, *said))
    names = dict.fromkeys(name for budget in BUDGETS for name in told.shares[budget])
    shares = [
        (name, *(f"{told.shares[budget].get(name, 0.0):.1%}" for budget in BUDGETS))
        for name in names
    ]
    totals = [("tokens used", *(f"{told.tokens[budget]:,.0f}" for budget in BUDGETS))]
    evidence = f"{title}: the share of the evidence in so many tokens"
    spent = f"{title}: what the tokens of a block are spent on"
    return (
        FigureTable(evidence, ("list", *budgets), rows),
        FigureTable(spent, ("section", *budgets), sections([shares, totals])),
    )


def _quality(title: str, run: EmbedderRun) -> FigureTable:
    """The default ranking on every corpus, over all questions and by category."""
    categories = [question.category for question in run.questions]

    def row(name: str, scores: Sequence[QuestionScore]) -> Sequence[str]:
        cells = (with_interval(metric_of(scores, metric)) for metric in METRICS)
        return (name, str(len(scores)), *cells)

    groups = []
    for corpus, variants in run.scores.items():
        scores = variants[BALANCED.name]
        group = [row(corpus, scores)]
        for category in sorted(set(categories)):
            pairs = zip(scores, categories, strict=True)
            group.append(row(f"  {category}", [score for score, of in pairs if of == category]))
        groups.append(group)
    return FigureTable(title, ("searched", "questions", *METRICS.values()), sections(groups))


def _rankings(title: str, run: EmbedderRun) -> FigureTable:
    """Every other ranking on every corpus, in the order in which they were asked."""

    def row(corpus: str, variant: str) -> Sequence[str]:
        cells = []
        for metric in _OF_RANKINGS:
            before, after = (
                metric_of(run.scores[corpus][name], metric) for name in (BALANCED.name, variant)
            )
            found = difference(before, after)
            cells += [after.shown(found.after), f"{found.shown_delta} ({found.shown_interval})"]
        return (corpus, variant, *cells)

    groups = [
        [row(corpus, variant) for variant in variants if variant != BALANCED.name]
        for corpus, variants in run.scores.items()
    ]
    metrics = [name for metric in _OF_RANKINGS for name in (METRICS[metric], "difference, 95 %")]
    return FigureTable(
        f"{title}: other rankings, against the default",
        ("searched", "ranking", *metrics),
        sections(group for group in groups if group),
        left=2,
    )


def _bars(run: EmbedderRun, scores: Mapping[str, RowScore]) -> Iterator[JudgedBar]:
    """All bars for an embedder of this kind, in order; most were set on LoCoMo."""
    if run.told is not None and run.kind != "offline":
        for budget in BUDGETS[1:]:
            name = _block_name(BLOCK, budget)
            naive = mean(scores[f"says: {_block_name(COSINE_LIST, budget)}"])
            figure = f"answers told in {budget:,} tokens, above a cosine list"
            yield _bar("Q3", figure, mean(scores[f"says: {name}"]) - naive, _GAIN)
        first, naive = (mean(scores[f"{_FIRST_OF} {name}"]) for name in (BLOCK, COSINE_LIST))
        yield _bar("Q3", f"an answer in the first {FIRST} tokens", first, max(_FIRST, naive))
    if run.data != LOCOMO:
        return
    offline = run.kind == "offline"
    if run.told is not None:
        bars = _BLOCK_WITHOUT if offline else _BLOCK_WITH_MODEL
        for budget, bar in zip(BUDGETS, bars, strict=True):
            found = mean(scores[_block_name(BLOCK, budget)])
            yield _bar("Q3", f"evidence in {budget:,} tokens", found, bar)
    if not run.scores:
        return
    for figure, (bar, aim) in (_WITHOUT if offline else _WITH_MODEL).items():
        yield _bar("Q1", figure, mean(scores[figure]), bar, aim)
    both, said, facts = (mean(scores[f"{of} R@10"]) for of in (BOTH, MESSAGES, FACTS))
    yield _bar("Q1", "both R@10, at least that of messages", both, said)
    cosine = mean(metric_of(run.scores[FACTS][COSINE.name], "recall_10"))
    yield _bar("Q1", f"{FACTS} R@10 above cosine alone", facts - cosine, _GAIN)


def _bar(
    name: str, figure: str, measured: float, bar: float, aim: float | None = None
) -> JudgedBar:
    aimed = "" if aim is None else f", aim {aim:.2f}"
    # Two digits more: what is rounded up to the bar has not reached it.
    return JudgedBar(name, figure, f"{measured:.4f}", f"≥ {bar:.2f}{aimed}", measured >= bar)


def _notes(run: EmbedderRun) -> list[str]:
    """What was held, and what limits the figures, as sentences."""
    took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in run.seconds.items())
    held = (
        "{succeeded} of {sessions} jobs succeeded, {summaries} summaries, {memories} memories "
        "({with_sources} with sources), {messages} messages"
    ).format_map(run.held)
    lines = [
        f"{run.embedder}: {held}; {took}",
        f"facts cannot come above R@10 {run.ceiling:.3f}: not every gold message led to one",
    ]
    if run.told is not None:
        lines.append(f"nothing was relevant for {run.told.nothing} of the questions")
    if run.degraded:
        lines.append(f"{run.degraded} answers were degraded: these figures are too low")
    return lines
