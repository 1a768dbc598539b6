"""Results of a study -> a page of plots and tables, and plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from posh_reward.errors import on_one_line
from posh_reward.pages.html import number, render
from posh_reward.study.packets.results import AxisPreference, Comparison, StudyResults
from posh_reward.study.packets.study_records import BETTER, MARKS, VALUES
from posh_reward.tables.statistics import Interval
from posh_reward.tables.text_tables import align_columns

FEW = 6  # with fewer raters, the page points it out
METHODS = (
    "Preferences run from -2 to 2. Each item counts once, as the mean of its raters. Intervals "
    "(95 %) hold for other items and for other raters like these: they combine the variances of "
    "items and raters, with Student's t weighted by their shares. Those for these raters only are "
    "mostly narrower. Those of alpha and of marks are bootstrapped over items, for these raters "
    "only.",
    "p: chance of a mean at least so far from 0 if the models are equally good. Holm: the same, "
    "corrected for all statements on this page, as is what holds in the eyes of these raters.",
    "Alpha (Krippendorff's, ordinal, each pair in both orders): how far raters agree on the same "
    'pair; 1 is full agreement, 0 is chance. "none": too few answers to compare.',
)
FORMS = {"coarse": "compares", "granular": "marks"}


def results_page(results: StudyResults, title: str = "What people preferred") -> str:
    return render(
        "results.html",
        "posh_reward.study.packets",
        title=title,
        lead=lead(results) + ("The reasons are at the end." if results.refused else ""),
        styles=("posh.css", "shell.css", "results.css"),
        results=results,
        notes=notes(results),
        verdict=verdict,
        ties=ties,
        amount=amount,
        spread=spread,
        p_text=p_text,
        duration=duration,
        meanings=BETTER,
        sides=MARKS,
        choices=sorted(VALUES),
        forms=FORMS,
        footer=[
            *METHODS,
            f"Packet {results.packet}.",
            *(f"{name}: {origin}" for name, origin in results.origins.items()),
        ],
    )


def lead(results: StudyResults) -> str:
    active = [each for each in results.raters if each.answered]
    text = f"{amount(len(active), 'rater')} of {len(results.raters)} answered "
    text += f"{amount(sum(each.answered for each in active), 'task')}. "
    if results.missing:
        text += f"Nothing counts yet from {', '.join(results.missing)}. "
    if results.left_out:
        text += f"Set aside on request: {', '.join(results.left_out)}. "
    if results.refused:
        text += f"{amount(len(results.refused), 'file')} refused. "
    return text


def notes(results: StudyResults) -> list[str]:
    """Cautions for whoever passes the figures on."""
    lines = []
    axes = [axis for comparison in results.comparisons for axis in comparison.axes]
    if axes:
        lines.append(
            f"This page makes {amount(len(axes), 'statement')}. They count as settled only if they "
            "hold for other raters like these, too; of pages about equally good models, at most "
            "one in twenty would call any of them settled (5 %, Holm's correction)."
        )
    fewest = min((each.raters for each in results.comparisons), default=FEW)
    if fewest < FEW:
        lines.append(f"Only {amount(fewest, 'rater')} answered: others may prefer something else.")
    if results.readings > 1:
        lines.append(
            f"New answers were read {results.readings} times. Repeated readings find differences "
            "that do not exist: the 5 % hold for a number of answers that was fixed beforehand."
        )
    lines += [
        f"Raters preferred the text shown as #{1 if bias.mean > 0 else 2} "
        f"({BETTER[axis]}: {bias}). Sides are balanced, so this hardly moves the "
        "preferences."
        for axis, bias in results.side_bias.items()
        if bias.excludes_zero
    ]
    if results.incomplete:
        lines.append(
            "Left out, since not all models wrote about them: "
            f"{amount(len(results.incomplete), 'item')}, listed at the end."
        )
    return lines


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verdict(axis: AxisPreference, comparison: Comparison) -> str:
    """One axis in a sentence fit to quote."""
    earlier, later = comparison.earlier, comparison.later
    better = later if axis.mean.mean > 0 else earlier
    meaning, general = BETTER[axis.axis], f"{axis.mean:+.2f}"
    few = f" ({amount(comparison.raters, 'rater')})" if comparison.raters < FEW else ""
    if axis.settled:
        return f"{meaning}: {better}{few}, {general}"
    if axis.settled_here:
        these = "the one rater" if comparison.raters == 1 else f"these {comparison.raters} raters"
        p = f", {general}, p {p_text(axis.p_mean)}, Holm {p_text(axis.p_holm)}"
        return (
            f"{meaning}: {better} in the eyes of {these}, {axis.these_raters:+.2f}; not "
            f"settled for other raters{p if comparison.raters > 1 else ''}"
        )
    return f"{meaning}: not settled between {later} and {earlier}, {general}"


def ties(comparison: Comparison) -> str:
    return f"{amount(comparison.identical, 'pair')} of equal texts count as ties without asking"


def p_text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def spread(interval: Interval | None, digits: int = 2) -> str:
    return "none" if interval is None else f"{interval:.{digits}f}"


def duration(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


# ---- plain text


def summary(results: StudyResults) -> str:
    """Preferences, agreement of raters, and raters to look at."""
    lines = [lead(results).strip(), *map(on_one_line, notes(results))]
    for comparison in results.comparisons:
        lines += _comparison(comparison)
    for ranking in results.rankings:
        places = (f"{on_one_line(m.model)} {spread(m.strength)}" for m in ranking.models)
        lines.append(f"\nranking, {ranking.axis} (logits, 95 %): {'; '.join(places)}")
    lines += _marks(results)
    lines += [f"look at {r.rater}: {'; '.join(r.flags)}" for r in results.raters if r.flags]
    return "\n".join(lines)


def _comparison(comparison: Comparison) -> Iterator[str]:
    earlier, later = on_one_line(comparison.earlier), on_one_line(comparison.later)
    yield (
        f"\n{later} against {earlier}: {comparison.items} items, {comparison.raters} raters. "
        f"Preferences run from -2 to 2; above 0, {later} is better"
    )
    if comparison.identical:
        yield ties(comparison)
    rows = [["axis", "preference [95 %]", "p", "Holm", "win", "tie", "loss", "alpha [95 %]"]]
    for axis in comparison.axes:
        counts = map(str, (axis.wins, axis.ties, axis.losses))
        rows.append(
            [axis.axis, str(axis.mean), p_text(axis.p_mean), p_text(axis.p_holm), *counts,
             spread(axis.alpha)]
        )  # fmt: skip
    yield align_columns(rows)
    for axis in comparison.axes:
        yield f"  {on_one_line(verdict(axis, comparison))}"


def _marks(results: StudyResults) -> Iterator[str]:
    for each in results.marked:
        yield (
            f"{on_one_line(each.model)}, {each.side}: {spread(each.marks, 1)} marks per text "
            f"(lower is better); unmarked words {spread(each.unmarked, 3)} (0 to 1, higher is "
            "better)"
        )
    for spans in results.span_agreement:
        texts = "1 text" if spans.tasks == 1 else f"{spans.tasks} texts"
        yield (
            f"agreement on {spans.side}: F1 {number(spans.f1)}, F1@50 "
            f"{number(spans.f1_at_50)} over {texts} (0 to 1, higher is better)"
        )
