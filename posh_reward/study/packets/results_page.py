"""Results of a study -> a page of plots and tables, and plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from posh_reward.errors import on_one_line
from posh_reward.pages.html import number, render
from posh_reward.study.packets.results import AxisPreference, Comparison, StudyResults
from posh_reward.study.packets.study_records import (
    AXIS_MEANINGS,
    AXIS_STATEMENTS,
    PREFERENCE_VALUES,
    SIDE_NAMES,
)
from posh_reward.tables.statistics import MIN_VALUES_FOR_SIGN, Interval
from posh_reward.tables.text_tables import align_columns

MIN_RATERS = 6  # with fewer raters, the page points it out
METHOD_NOTES = (
    "Preferences run from -2 to 2. Each item counts once, as the mean of its raters. Intervals "
    "(95 %) hold for other items and for other raters like these: they combine the variances of "
    "items and raters, with Student's t weighted by their shares. Those for these raters only are "
    "mostly narrower. Those of alpha and of marks are bootstrapped over items, for these raters "
    "only.",
    "p: how often chance alone makes a mean at least so far from 0, if the models are equally "
    "good. Holm: the same, made stricter as this page makes several statements, and so is what "
    "holds in the eyes of these raters.",
    "Alpha (Krippendorff's, ordinal, each pair in both orders): how far raters agree on the same "
    'pair; 1 is full agreement, 0 is chance. "none": no pair has several raters; "too few": fewer '
    f"than {MIN_VALUES_FOR_SIGN} have.",
)
CONSOLE_NOTE = (
    "\np: how often chance alone makes such a difference; Holm: p, stricter as there are several "
    "statements;\nalpha: how far raters agree, 1 fully, 0 by chance"
)
FORM_VERBS = {"coarse": "compares", "granular": "marks"}


def results_page(results: StudyResults, title: str = "What people preferred") -> str:
    lead = lead_text(results)
    if results.refused:
        lead += "The reasons are at the end."
    origins = [f"{name}: {origin}" for name, origin in results.origins.items()]
    return render(
        "results.html",
        "posh_reward.study.packets",
        title=title,
        lead=lead,
        styles=("posh.css", "shell.css", "results.css"),
        results=results,
        notes=list_cautions(results),
        verdict=verdict_text,
        ties=ties_text,
        amount=count_text,
        spread=interval_text,
        agreement=alpha_text,
        p_text=p_text,
        duration=duration_text,
        meanings=AXIS_MEANINGS,
        sides=SIDE_NAMES,
        choices=sorted(PREFERENCE_VALUES),
        forms=FORM_VERBS,
        footer=[*METHOD_NOTES, f"Packet {results.packet}.", *origins],
    )


def lead_text(results: StudyResults) -> str:
    counted = [each for each in results.raters if each.rater not in results.left_out]
    active = [each for each in counted if each.answered]
    text = f"{count_text(len(active), 'rater')} of {len(results.raters)} answered "
    text += f"{count_text(sum(each.answered for each in active), 'task')}. "
    open_ = [each for each in active if each.answered < each.tasks]
    if open_:
        parts = [f"{each.rater} ({each.answered} of {each.tasks})" for each in open_]
        text += f"Not finished: {', '.join(parts)}. "
    if results.missing:
        text += f"Nothing counts yet from {', '.join(results.missing)}. "
    if results.left_out:
        text += f"Set aside on request: {', '.join(results.left_out)}. "
    if results.refused:
        text += f"{count_text(len(results.refused), 'file')} refused. "
    return text


def list_cautions(results: StudyResults) -> list[str]:
    """Cautions for whoever passes the figures on."""
    lines = []
    axes = list(chain.from_iterable(comparison.axes for comparison in results.comparisons))
    if axes:
        lines.append(
            f"This page makes {count_text(len(axes), 'statement')}. They count as settled only if "
            "they hold for other raters like these, too; of pages about equally good models, at "
            "most one in twenty would call any of them settled (5 %, Holm's correction)."
        )
    fewest = min((each.raters for each in results.comparisons), default=MIN_RATERS)
    if fewest < MIN_RATERS:
        lines.append(
            f"Only {count_text(fewest, 'rater')} answered: others may prefer something else."
        )
    if results.readings > 1:
        lines.append(
            f"New answers were read {results.readings} times. Repeated readings find differences "
            "that do not exist: the 5 % hold for a number of answers that was fixed beforehand."
        )
    for axis, bias in results.side_bias.items():
        if bias.excludes_zero:
            side = 1 if bias.mean > 0 else 2
            lines.append(
                f"Raters preferred the text shown as #{side} ({AXIS_MEANINGS[axis]}: {bias}). "
                "Sides are balanced, so this hardly moves the preferences."
            )
    if results.incomplete:
        lines.append(
            "Left out, since not all models wrote about them: "
            f"{count_text(len(results.incomplete), 'item')}, listed at the end."
        )
    return lines


def count_text(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def verdict_text(axis: AxisPreference, comparison: Comparison) -> str:
    """One axis in a sentence fit to quote."""
    earlier, later = comparison.earlier, comparison.later
    interval = axis.mean if axis.settled or not axis.settled_here else axis.these_raters
    is_later = interval.mean > 0
    better = later if is_later else earlier
    lead = _format_lead(interval, is_later)
    statement = f"{better} {AXIS_STATEMENTS[axis.axis]}, by {lead}"
    if axis.settled:
        if comparison.raters < MIN_RATERS:
            statement += f" ({count_text(comparison.raters, 'rater')})"
        return statement
    if not axis.settled_here:
        text = f"{AXIS_MEANINGS[axis.axis]}: not settled between {later} and {earlier}; "
        if interval.mean == 0:
            return f"{text}they are level, {lead}"
        return f"{text}{better} is ahead by {lead}"
    if comparison.raters == 1:
        return f"in the eyes of the one rater, {statement}; not settled for other raters"
    return (
        f"in the eyes of these {comparison.raters} raters, {statement}; not settled for other "
        f"raters: {_format_lead(axis.mean, is_later)}, p {p_text(axis.p_mean)}, "
        f"Holm {p_text(axis.p_holm)}"
    )


def _format_lead(interval: Interval, is_later: bool) -> str:
    """By how much the better model, the later or the earlier one, leads."""
    if not is_later:
        interval = Interval(-interval.mean, -interval.high, -interval.low, interval.count)
    return f"{interval:.2f}"


def ties_text(comparison: Comparison) -> str:
    return f"{count_text(comparison.identical, 'pair')} of equal texts count as ties without asking"


def p_text(p: float) -> str:
    if p >= 0.001:
        return f"{p:.3f}"
    return "<0.001"


def alpha_text(alpha: Interval | None) -> str:
    if alpha is not None and alpha.count < MIN_VALUES_FOR_SIGN:
        return f"too few ({count_text(alpha.count, 'pair')})"
    return interval_text(alpha)


def interval_text(interval: Interval | None, digits: int = 2) -> str:
    if interval is None:
        return "none"
    return f"{interval:.{digits}f}"


def duration_text(seconds: float | None) -> str:
    if seconds is None:
        return "none"
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


# ---- plain text


def summary_text(results: StudyResults) -> str:
    """Preferences, agreement of raters, and raters to look at."""
    lines = [lead_text(results).strip(), *map(on_one_line, list_cautions(results))]
    for comparison in results.comparisons:
        lines += _comparison_lines(comparison)
    if results.comparisons:
        lines.append(CONSOLE_NOTE)
    for ranking in results.rankings:
        places = [f"{on_one_line(m.model)} {interval_text(m.strength)}" for m in ranking.models]
        lines.append(f"\nranking, {ranking.axis} (logits, 95 %): {'; '.join(places)}")
    lines += _mark_lines(results)
    for rater in results.raters:
        if rater.flags:
            lines.append(f"look at {rater.rater}: {'; '.join(rater.flags)}")
    return "\n".join(lines)


def _comparison_lines(comparison: Comparison) -> Iterator[str]:
    earlier, later = on_one_line(comparison.earlier), on_one_line(comparison.later)
    yield (
        f"\n{later} against {earlier}: {comparison.items} items, {comparison.raters} raters. "
        f"Preferences run from -2 to 2; above 0, {later} is better"
    )
    if comparison.identical:
        yield ties_text(comparison)
    rows = [["axis", "preference [95 %]", "p", "Holm", "win", "tie", "loss", "alpha [95 %]"]]
    for axis in comparison.axes:
        counts = map(str, (axis.wins, axis.ties, axis.losses))
        rows.append(
            [axis.axis, str(axis.mean), p_text(axis.p_mean), p_text(axis.p_holm), *counts,
             alpha_text(axis.alpha)]
        )  # fmt: skip
    yield align_columns(rows)
    for axis in comparison.axes:
        yield f"  {on_one_line(verdict_text(axis, comparison))}"


def _mark_lines(results: StudyResults) -> Iterator[str]:
    for each in results.marked:
        model, marks = on_one_line(each.model), interval_text(each.marks, 1)
        yield (
            f"{model}, {each.side}: {marks} marks per text (lower is better); unmarked words "
            f"{interval_text(each.unmarked, 3)} (0 to 1, higher is better)"
        )
    for spans in results.span_agreement:
        texts = "1 text" if spans.tasks == 1 else f"{spans.tasks} texts"
        yield (
            f"agreement on {spans.side}: F1 {number(spans.f1)}, F1@50 "
            f"{number(spans.f1_at_50)} over {texts} (0 to 1, higher is better)"
        )
