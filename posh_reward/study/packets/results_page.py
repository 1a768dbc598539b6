"""Results of a study -> a page of plots and tables, without scripts."""

from __future__ import annotations

from posh_reward.study.crossed import look_level
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.results import AxisPreference, Comparison, StudyResults
from posh_reward.study.pages.html import render
from posh_reward.study.statistics import Interval

HERE = "posh_reward.study.packets"
FEW = 6  # raters below which a page says how few they are
SUGGESTED = (
    "Raters were shown marks that a program suggested. That pulls their marks towards its own: "
    "these figures cannot be used to say how good that program is."
)
METHODS = (
    "Preferences run from -2 to 2. Each item counts once, as the mean of its raters. Intervals "
    "(95 %) hold for other items and for other raters like these: variances of items and raters, "
    "with Student's t weighted by their shares. Those for these raters only are mostly narrower. "
    "Those of alpha and of marks are bootstrapped over items, and hold for these raters only.",
    "p: chance of a mean so far from 0 if the models are equally good. Holm: the same, corrected "
    "for all statements of this page. The sign test asks how likely so uneven a split of wins and "
    "losses is, for these raters.",
    "Alpha (Krippendorff's, ordinal, each pair in both orders) says how far raters agree on the "
    "same pair: 1 is full agreement, 0 is chance. Same side: share of pairs of raters who prefer "
    'the same text, or both say "equal"; chance is not taken out. "none": too few answers to '
    "compare.",
)
FORMS = {"coarse": "compares", "ranking": "ranks", "granular": "marks"}


def results_page(results: StudyResults, title: str = "What people preferred") -> str:
    """One HTML document; it needs no other file."""
    return render(
        "results.html",
        HERE,
        title=title,
        lead=lead(results) + ("The reasons are at the end." if results.refused else ""),
        styles=("posh.css", "shell.css", "results.css"),
        results=results,
        notes=[*notes(results), *([SUGGESTED] if results.suggested else [])],
        verdict=verdict,
        ties=ties,
        amount=amount,
        spread=spread,
        p_text=p_text,
        duration=duration,
        meanings=rater_texts.BETTER,
        sides=rater_texts.MARKS,
        choices=sorted(rater_texts.VALUES),
        forms=FORMS,
        footer=[*METHODS, f"Packet {results.packet}."],
    )


def lead(results: StudyResults) -> str:
    """Counts of raters, answers and files."""
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
    """Cautions to read before the figures are passed on."""
    lines = []
    axes = [axis for comparison in results.comparisons for axis in comparison.axes]
    if axes:
        lines.append(
            f"This page makes {amount(len(axes), 'statement')}. One is called settled if it holds "
            "for raters like these at 5 % after Holm's correction for all of them."
        )
    if any(each.form == "ranking" for each in results.raters):
        lines.append(
            "Raters ranked three texts at a time: a preference is how many places lie between two."
        )
    fewest = min((each.raters for each in results.comparisons), default=FEW)
    if fewest < FEW:
        lines.append(f"Only {amount(fewest, 'rater')} answered: others may prefer something else.")
    if len(results.looks) > 1 or (results.looks and results.looks[-1] < 1):
        shares = ", ".join(f"{look:.0%}" for look in results.looks)
        final = " If no more answers will come, read with --final." if results.looks[-1] < 1 else ""
        lines.append(
            f"Looks at the answers so far: {len(results.looks)}, at {shares} of the study. Several "
            "looks find differences that are none, so the level is now "
            f"{look_level(results.looks):.1%} in place of 5 % (O'Brien and Fleming).{final}"
        )
    if any(look > 1 for look in results.looks):
        lines.append(
            "The study grew after it was read as a whole (100 %): the chance of a false statement "
            "is 5 % for the study as planned, and 7 % however often it grows. What an earlier page "
            "called settled stays so."
        )
    lines += [
        f"Raters preferred what was shown as #{1 if bias.mean.mean > 0 else 2} "
        f"({rater_texts.BETTER[bias.axis]}: {bias.mean}). Sides are balanced, so this hardly moves "
        "the preferences."
        for bias in results.side_bias
        if bias.mean.excludes_zero
    ]
    if results.incomplete:
        lines.append(
            "Left out, since not all models wrote about them: "
            f"{amount(len(results.incomplete), 'item')}, listed at the end."
        )
    return lines


def amount(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verdict(axis: AxisPreference, comparison: Comparison) -> str:
    """One axis in a sentence that may be quoted."""
    earlier, later = comparison.earlier, comparison.later
    better = later if axis.mean.mean > 0 else earlier
    meaning, general = rater_texts.BETTER[axis.axis], _with_sign(axis.mean)
    few = f" ({amount(comparison.raters, 'rater')})" if comparison.raters < FEW else ""
    if axis.settled:
        return f"{meaning}: {better}{few}, {general}"
    if axis.these_raters.excludes_zero:
        these = "the one rater" if comparison.raters == 1 else f"these {comparison.raters} raters"
        p = f", {general}, p {p_text(axis.p_mean)}, Holm {p_text(axis.p_holm)}"
        return (
            f"{meaning}: {better} in the eyes of {these}, {_with_sign(axis.these_raters)}; not "
            f"settled for other raters{p if comparison.raters > 1 else ''}"
        )
    return f"{meaning}: not settled between {later} and {earlier}, {general}"


def _with_sign(interval: Interval) -> str:
    return f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def ties(comparison: Comparison) -> str:
    """The number of pairs of equal texts, in words."""
    return f"{amount(comparison.identical, 'pair')} of equal texts count as ties unasked"


def p_text(p: float) -> str:
    """A p-value, never 0."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def spread(interval: Interval | None, digits: int = 2) -> str:
    """A mean with its interval, to be read by people."""
    if interval is None:
        return "none"
    mean, low, high = (f"{x:.{digits}f}" for x in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def duration(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "none" if seconds is None else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
