"""Scored rows -> one page to look through: distributions, a table, and each pair's marked texts.

The page needs no network and no other file. Texts are untrusted: they are embedded as JSON that
cannot close its element, and reach the document only through ``textContent``. The content policy
allows our script, by its hash, and no other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from posh_reward.metrics.inputs import filled
from posh_reward.study.pages.contents import Contents, contents_of
from posh_reward.study.pages.html import policy_hash, render, script_json, template
from posh_reward.study.pages.overview import overview
from posh_reward.study.pages.pair_page import NAMES, witnessed
from posh_reward.study.pages.thumbnails import Images
from posh_reward.study.rows.posh_rows import EXPLAINED
from posh_reward.study.rows.standings import baseline_of
from posh_reward.study.rows.tables import Row

TITLE = "POSH: mistakes and omissions"


def report(
    rows: Iterable[Row],
    title: str = TITLE,
    images: Images | None = None,
    baseline: str | None = None,
) -> str:
    """One HTML document about scored rows, as ``posh-reward score`` writes them.

    Args:
        rows: read once, one at a time. Without ``elements`` they are shown unmarked. Those of
            one ``id`` by several models are shown side by side.
        title: its heading.
        images: makes the small copies of what ``image`` names; None shows no images.
        baseline: the model that the others are compared with; by default the first.

    Raises:
        InputError: a row is not a scored row, there is none, or no row is of the baseline.
    """
    return report_of(contents_of(rows, images), title, baseline)


def report_of(
    contents: Contents,
    title: str = TITLE,
    baseline: str | None = None,
    plots: Sequence[tuple[str, bytes]] = (),
) -> str:
    """The page about rows that have been collected.

    Args:
        contents: what it shows.
        title: its heading.
        baseline: the model that the others are compared with; by default the first.
        plots: of the models: what each shows, in words, and its SVG.

    Raises:
        InputError: no row is of the baseline.
    """
    models = contents.models
    base = baseline_of(models, baseline)
    images = contents.images
    copies = images.copies if images else []
    groups = [[g.name, [g.members.get(model) for model in models]] for g in contents.groups]
    values = {
        "title": escape(title),
        "lead": escape(_lead(contents)),
        "doubts": "".join(
            f'<p class="failure">Do not rely on {escape(str(rows))}: {why}.</p>'
            for why, rows in contents.tally.doubts.items()
        ),
        "overview": overview(contents.tally, base, contents.gains(base)),
        "plots": _plots(plots),
        "key": render("key.html", witnessed=witnessed(contents.signatures)),
        "footer": "<br>".join(map(escape, [NAMES, *contents.signatures])),
        **_columns(models, base),
        "models": script_json([model or "(no model)" for model in models]),
        "baseline": script_json(models.index(base)),
        "wordings": script_json(list(contents.wordings)),
        "rows": script_json(groups),
        "pairs": "\n".join(contents.pairs),
        "pictures": "\n".join(script_json(copy, f"picture-{n}") for n, copy in enumerate(copies)),
        "script": template("report.js"),
        "style": template("posh.css") + template("shell.css") + template("report.css"),
    }
    hashes = {f"{name}_hash": policy_hash(values[name]) for name in ("script", "style")}
    return filled(template("report.html"), {**values, **hashes})


def _plots(plots: Sequence[tuple[str, bytes]]) -> str:
    """Images that a page carries with it; nothing in them can run or be fetched."""
    if not plots:
        return ""
    images = "".join(
        f'<img src="data:image/svg+xml;base64,{base64.b64encode(svg).decode("ascii")}" '
        f'alt="{escape(what)}">'
        for what, svg in plots
    )
    return f'<details class="card plots" open><summary>Plots</summary>{images}</details>'


def _columns(models: Sequence[str], baseline: str) -> dict[str, str]:
    """The headers that only a page about models has."""
    if models == [""]:
        return {"model_column": "", "gain_column": ""}
    gain = ""
    if len(models) > 1:
        what = f"overall minus overall of {escape(baseline or '(no model)')}: above 0 is better"
        gain = f'<th class="n wide"><button data-column="5" title="{what}">Gain</button></th>'
    return {"model_column": '<th class="wide model">Model</th>', "gain_column": gain}


def _lead(contents: Contents) -> str:
    pairs, failed = len(contents.pairs), sum(f.count for f in contents.tally.failures.values())
    lead = f"{pairs:,} pair{'s' * (pairs != 1)}"
    lead += f", {failed:,} of them without a score. " if failed else ". "
    lead += f"{EXPLAINED}. "
    if contents.marked:
        lead += "Open a pair to see its mistakes and omissions in the texts."
    else:
        lead += "They were scored without --elements, so nothing is marked in the texts."
    if contents.images and contents.images.left_out:
        lead += f" Only the first {len(contents.images.copies):,} images are shown."
    dataset = contents.images.dataset if contents.images else None
    if dataset and dataset.beyond:
        lead += f" Without an image: {dataset.too_far}."
    if len(contents.signatures) > 1:
        lead += (
            f" These scores have {len(contents.signatures)} signatures: they are not comparable."
        )
    return lead
