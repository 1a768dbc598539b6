"""Results of a study -> a page of plots and tables, without scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from posh_reward.metrics.inputs import filled
from posh_reward.study.packets import rater_texts
from posh_reward.study.packets.preference_plots import answers_plot, preference_plot
from posh_reward.study.packets.rater_page import HERE
from posh_reward.study.packets.results import Comparison, MarkRate, Preference, StudyResults
from posh_reward.study.packets.study_records import Form
from posh_reward.study.pages.html import template
from posh_reward.study.statistics import Interval

SUGGESTED = (
    "Raters were shown marks that a program suggested. That pulls their marks towards its own: "
    "these figures cannot be used to say how good that program is."
)
HOW = (
    "Preferences run from -2 to 2. Each item counts once, as the mean of its raters. Intervals "
    "(95 %) come from resampling the items. The sign test asks how likely so uneven a split of "
    "wins and losses is if the models are equally good. Alpha (Krippendorff's, ordinal) says how "
    "far raters agree on the same pair: 1 is full agreement, 0 is chance. Where it says none, too "
    "few answers can be compared, or all are alike."
)


def results_page(results: StudyResults, title: str = "What people preferred") -> str:
    """One HTML document; it needs no other file."""
    cards = [
        *(_comparison(each) for each in results.comparisons),
        _marks(results) if results.marked else "",
        _raters(results),
    ]
    values = {
        "title": escape(title),
        "lead": escape(lead(results) + ("The reasons are at the end." if results.refused else "")),
        "style": template("posh.css") + template("shell.css") + template("results.css", HERE),
        "figure": "",
        "key": f'<p class="failure">{SUGGESTED}</p>' if results.suggested else "",
        "items": f'<div class="study">{"".join(cards)}</div>',
        "footer": escape(f"{HOW} Packet {results.packet}."),
    }
    return filled(template("page.html"), values)


def lead(results: StudyResults) -> str:
    """Who has answered, and what is missing."""
    done = [each for each in results.raters if each.answered]
    said = f"{_count(len(done), 'rater')} of {len(results.raters)} answered "
    said += f"{_count(sum(each.answered for each in done), 'task')}. "
    if results.missing:
        said += f"Nothing counts yet from {', '.join(results.missing)}. "
    if results.left_out:
        said += f"Set aside on request: {', '.join(results.left_out)}. "
    if results.refused:
        said += f"{_count(len(results.refused), 'file')} refused. "
    return said


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verdict(preference: Preference, earlier: str, later: str) -> str:
    """What one axis says, in a sentence."""
    mean = preference.mean
    spread = f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}]"
    what = rater_texts.BETTER[preference.axis]
    if not mean.excludes_zero:
        return f"{what}: not settled between {later} and {earlier}, {spread}"
    better = later if mean.mean > 0 else earlier
    return f"{what}: {better}, {spread}"


def _comparison(comparison: Comparison) -> str:
    earlier, later = comparison.earlier, comparison.later
    said = "".join(f"<li>{escape(verdict(e, earlier, later))}</li>" for e in comparison.axes)
    rows = "".join(_axis_row(each) for each in comparison.axes)
    about = (
        f"{_count(comparison.items, 'item')}, {_count(comparison.answers, 'answer')}; "
        f"{_count(comparison.several, 'item')} with several raters"
    )
    if comparison.identical:
        about += f". {ties(comparison)}"
    return (
        f'<section class="card"><h2>{escape(later)} against {escape(earlier)}</h2>'
        f'<p class="note">{about}. Above 0, {escape(later)} is better.</p>'
        f'<ul class="verdict">{said}</ul>'
        '<div class="wide-table" tabindex="0" role="region" aria-label="Plots">'
        f"{preference_plot(comparison)}{answers_plot(comparison)}</div>"
        '<div class="wide-table" tabindex="0" role="region" aria-label="Figures"><table><thead>'
        '<tr><th>Axis</th><th class="n">Preference</th><th class="n">95 %</th>'
        f'<th class="n">Wins</th><th class="n">Ties</th><th class="n">Losses</th>'
        '<th class="n">Sign test p</th><th class="n">Alpha</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'<p class="note">Wins are items on which {escape(later)} is better.</p></section>'
    )


def ties(comparison: Comparison) -> str:
    """What counts although nobody was asked."""
    return f"{_count(comparison.identical, 'pair')} of equal texts count as ties unasked"


def _axis_row(each: Preference) -> str:
    cells = (f"{each.mean.mean:+.3f}", f"[{each.mean.low:+.3f}, {each.mean.high:+.3f}]",
             each.wins, each.ties, each.losses, f"{each.p:.3f}", agreement(each.alpha))  # fmt: skip
    return f"<tr><td>{rater_texts.BETTER[each.axis]}</td>{_cells(cells)}</tr>"


def _cells(values: Iterable[object]) -> str:
    return "".join(f'<td class="n">{value}</td>' for value in values)


def _marks(results: StudyResults) -> str:
    rows = "".join(_marked_row(each) for each in results.marked)
    agreement = "".join(
        f"<tr><td>{rater_texts.SIDES[each.side][1]}</td>"
        f"{_cells((each.tasks, share(each.f1), share(each.f1_at_50)))}</tr>"
        for each in results.span_agreement
    )
    return (
        '<section class="card"><h2>Marked words</h2><p class="note">Mistakes are marked in what a '
        "model wrote, missing details in the correct description. Marks a text: lower is better. "
        "Unmarked: share of words, 0 to 1, higher is better.</p>"
        '<div class="wide-table" tabindex="0" role="region" aria-label="Marks"><table><thead><tr>'
        '<th>Model</th><th>Marked</th><th class="n">Items</th><th class="n">Marks a text</th>'
        f'<th class="n">Unmarked words</th></tr></thead><tbody>{rows}</tbody></table></div>'
        "<h3>Agreement of raters</h3>"
        '<p class="note">Marks match if they share a word (F1), or half of their words (F1@50). '
        "0 to 1, higher is better.</p>"
        '<div class="wide-table" tabindex="0" role="region" aria-label="Agreement"><table><thead>'
        '<tr><th>MarkRate</th><th class="n">Texts with several raters</th><th class="n">F1</th>'
        f'<th class="n">F1@50</th></tr></thead><tbody>{agreement}</tbody></table></div></section>'
    )


def _marked_row(each: MarkRate) -> str:
    cells = (each.items, spread(each.marks, 1), spread(each.unmarked, 3))
    return (
        f"<tr><td>{escape(each.model)}</td><td>{rater_texts.SIDES[each.side][1]}</td>"
        f"{_cells(cells)}</tr>"
    )


def spread(interval: Interval, digits: int) -> str:
    """A mean with its interval, to be read by people."""
    mean, low, high = (f"{x:.{digits}f}" for x in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def agreement(alpha: Interval | None) -> str:
    """Alpha with its interval; few items say little about it."""
    return "none" if alpha is None else f"{alpha.mean:.2f} [{alpha.low:.2f}, {alpha.high:.2f}]"


def share(value: float | None) -> str:
    """A share or an agreement, to be read by people."""
    return "none" if value is None else f"{value:.3f}"


def _raters(results: StudyResults) -> str:
    rows = "".join(
        f"<tr><td>{each.rater}</td><td>{FORMS[each.form]}</td>"
        f"{_cells((f'{each.answered} of {each.tasks}', _seconds(each.seconds)))}"
        f'<td class="flag">{escape("; ".join(each.flags))}</td></tr>'
        for each in results.raters
    )
    refused = "".join(f"<li>{escape(each)}</li>" for each in results.refused)
    files = f"<h3>Refused files</h3><ul>{refused}</ul>" if refused else ""
    return (
        '<section class="card"><h2>Raters</h2><p class="note">A flag asks for a look; it removes '
        "no answer. To see the figures without a rater, read the answers with --leave-out.</p>"
        '<div class="wide-table" tabindex="0" role="region" aria-label="Raters"><table><thead><tr>'
        '<th>Rater</th><th>RaterTask</th><th class="n">Done</th><th class="n">Median time</th>'
        f"<th>Flags</th></tr></thead><tbody>{rows}</tbody></table></div>{files}</section>"
    )


FORMS: dict[Form, str] = {"coarse": "compares", "granular": "marks"}


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value // 60:.0f} min {value % 60:02.0f} s"
