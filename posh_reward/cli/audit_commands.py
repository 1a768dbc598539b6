"""``posh-reward attack``, ``audit-references``: audit rewards and references before training."""

from __future__ import annotations

import argparse
import io
import math
import random
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.cli import EXIT_OK, options
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.audit.reward_cache import Reward, RewardCache, RowText

ATTACK_HELP = """\
Audit a reward before training on it, and after each change of judge or rules (docs/audit.md): what
passes though false, and what fails though honest, each held against true texts of the same rows.

The first half: texts found by climbs that never see the image, alone and behind the first half of a
true text; true texts made false by kind; labels of prompts. The second half: the same text in
other formats, simpler sentences, lengths and words. Writes finds.md, finds.html and a journal, from
which a killed run resumes with the same command, to DIR."""
EXIT_FOUND = 1
ATTACK_STATUS_HELP = "Its exit status is 0 if nothing was found, and 1 if something was."
FINDS_FILES = ("finds.md", "finds.html")
MAX_VOCABULARY_ROWS = 500
"""Most rows that climbs' words are collected from; more would cost time and change little."""


def add_attack(command: argparse.ArgumentParser) -> None:
    example = "attack rows.jsonl -o audit --reference caption --reward my_rewards:brevity"
    options.describe_command(command, f"{ATTACK_HELP}\n\n{ATTACK_STATUS_HELP}", example)
    add = command.add_argument
    add("input", metavar="INPUT", help="table with a column of true texts, or a dataset's name")
    add("--split", default="test", help="split of a dataset")
    add("--reward", metavar="WHICH", help="settings file of POSH's reward, or MODULE:NAME for a "
        "function or reward of your own, called as TRL calls it (default: POSH)")  # fmt: skip
    add("--reference", metavar="COLUMN", help="column of true texts (default: the reward's own)")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--rows", type=options.positive, default=12, help="rows that all texts are "
        "finally paid on; climbs are paid on a third as many others")  # fmt: skip
    add("--budget", type=int, default=16, help="texts that each climb tries; 0: no climbs")
    options.add_json(add)
    options.add_trust(add)
    command.set_defaults(command=attack_reward)


def attack_reward(flags: argparse.Namespace) -> int:
    from posh_reward.audit import audit
    from posh_reward.audit.hill_climb import GRAMMARS, HillClimb, collect_vocabulary
    from posh_reward.audit.reward_cache import JOURNAL_LINE_START, RewardCache, open_reward
    from posh_reward.audit.variants import shared_reader
    from posh_reward.process.progress import progress_bar
    from posh_reward.tables.tables import Journal
    from posh_reward.types import Description

    options.check_replaceable(flags.json, options.FIGURES_START)
    audited_before = any(flags.output.glob("paid-*.jsonl"))
    for name in FINDS_FILES:
        path = flags.output / name
        if path.exists() and not audited_before:
            raise InputError(f"{str(path)!r} exists, and no audit wrote it: choose another folder")
    reward = open_reward(flags.reward, flags.reference)
    rows = read_references(flags.input, flags.split, reward.column)
    random.Random(0).shuffle(rows)
    search = max(1, flags.rows // 3)
    unseen = decode_rows(rows[search:][: flags.rows])
    if len(unseen) < min(3, flags.rows):
        raise InputError(f"{flags.input} has {len(rows)} rows: use {search + 3} at least")
    used = [*unseen, *decode_rows(rows[:search])]
    searched = range(len(unseen), len(used))
    texts = audit.Texts.of(reward, unseen)
    others = [*rows[:search], *rows[search + flags.rows :]][:MAX_VOCABULARY_ROWS]
    climbs: list[tuple[str, bool]] = []
    if flags.budget > 0:
        climbs = list(product(GRAMMARS, (False, True)))
    # The name keeps a journal of other rows, or of another reward, from being resumed.
    key = repr((reward.signature, list(map(reward.true_text, used)), texts))
    which = sha256(key.encode()).hexdigest()[:8]
    flags.output.mkdir(parents=True, exist_ok=True)
    with closing(Journal(flags.output / f"paid-{which}.jsonl", JOURNAL_LINE_START)) as journal:
        cache = RewardCache(reward, used, journal)
        yardsticks = list(chain.from_iterable(map(enumerate, texts.yardsticks.values())))
        cost = measure_cost(reward, cache, yardsticks)
        means = audit.score_yardsticks(texts, cache)
        checks = audit.make_checks(texts)
        check_texts = chain.from_iterable(map(audit.Check.row_texts, checks))
        fixed = cache.find_unscored(check_texts)
        tries = len(climbs) * flags.budget
        print(format_estimate(len(fixed), tries, search, *cost), file=sys.stderr)
        with progress_bar("audit", len(fixed) + tries, "text") as bar:
            cache.score(fixed, bar.update)
            parsed = shared_reader().read(list(map(reward.true_text, others)))
            words = collect_vocabulary(each for each in parsed if isinstance(each, Description))
            for name, behind in climbs:
                climb = HillClimb(name, behind, words)
                units = climb.best(cache, searched, flags.budget, bar.update)
                checks.append(audit.make_climb_check(climb, units, texts))
        floor = audit.compute_worth_floor(means)
        findings = [audit.judge_check(check, cache, floor) for check in checks]
    footer = [f"{flags.budget} texts for each climb, {len(unseen)} rows", reward.signature]
    report = audit.format_table(means, findings)
    page = audit.render_page(means, findings, footer)
    for name, text in zip(FINDS_FILES, (f"{report}\n", page), strict=True):
        options.write_file(flags.output / name, text.encode())
    figures = {"signature": reward.signature, "findings": list(map(asdict, findings))}
    options.show_figures(flags, figures, report)
    return EXIT_FOUND if any(each.verdict == "found" for each in findings) else EXIT_OK


def measure_cost(
    reward: Reward, cache: RewardCache, texts: Sequence[RowText]
) -> tuple[float | None, float]:
    """Score first texts; return the seconds (None: unknown) and questions of each."""
    unscored = cache.find_unscored(texts)
    print(f"timing the reward on {len(unscored)} texts", file=sys.stderr)
    cache.score(unscored[:1])  # loads what the reward needs, which is no part of a text's time
    begun, asked_before = time.perf_counter(), reward.requests()
    cache.score(unscored[1:])
    timed = len(unscored) - 1
    if timed < 1:
        return None, 0.0
    seconds, asked = time.perf_counter() - begun, reward.requests() - asked_before
    return seconds / timed, asked / timed


def format_estimate(
    fixed: int, tries: int, rows: int, seconds: float | None, requests: float
) -> str:
    """Say what is left to do; climbs drop most texts before the last row, so it is a bound."""
    least, most = fixed + tries, fixed + tries * rows
    parts = [f"{fixed:,} texts left, and {tries:,} in climbs, each on up to {rows} rows"]
    if seconds is not None:
        low, high = math.ceil(least * seconds / 60), math.ceil(most * seconds / 60)
        parts.append(f"{low:,} to {high:,} minutes")
    if requests:
        parts.append(f"{least * requests:,.0f} to {most * requests:,.0f} questions")
    return "; ".join(parts)


def decode_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decode images that a dataset has as the bytes of files, as TRL passes them."""
    decoded = []
    for row in rows:
        decoded.append({name: _decode_images(value) for name, value in row.items()})
    return decoded


def _decode_images(value: object) -> object:
    if isinstance(value, list):
        return [_decode_images(each) for each in value]
    if not (isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes)):
        return value
    from PIL import Image

    return Image.open(io.BytesIO(value["bytes"]))


def read_references(name: str, split: str, column: str) -> list[dict[str, Any]]:
    """Read the rows that have a true text, or a list of them, in a column."""
    from posh_reward.tables.engine import check_column
    from posh_reward.tables.reading import read_row_texts

    usable, columns = [], dict[str, None]()
    for number, row in enumerate(load_rows(name, split, column), start=1):
        columns |= dict.fromkeys(row)
        if texts := read_row_texts(row, column, f"{name}, row {number}"):
            usable.append({**row, column: texts[0] if len(texts) == 1 else texts})
    if not usable:
        check_column(columns, name, "reference", column)
        raise InputError(f"no row of {name} has a text in the column {column}")
    return usable


def load_rows(name: str, split: str, column: str) -> Iterable[dict[str, Any]]:
    from posh_reward.datasets.load_dataset import is_drawn, load_images
    from posh_reward.study.agreement.judgment_files import read_rows

    return (
        load_images(name, split)
        if is_drawn(name)
        else read_rows(name, split=split, images=True, text=column)
    )


AUDIT_HELP = """\
Audit references before training on them (docs/audit.md): terse, contradictory, duplicated, foreign
or list-like ones, those with markup, details per 100 words, and what a policy would learn to omit:
what is said in long references but not in short ones. Its exit status is 1 if more references have
a problem than --allow."""


def add_references(command: argparse.ArgumentParser) -> None:
    options.describe_command(command, AUDIT_HELP, "audit-references rows.jsonl -o references.html")
    add = command.add_argument
    add("input", metavar="INPUT", help="table with a column of references, or a dataset's name")
    add("--split", default="train", help="split of a dataset")
    add("--reference", default="reference", metavar="COLUMN", help="column of references: a text "
        "or a list of texts about one image")  # fmt: skip
    add("-o", "--output", type=Path, metavar="HTML", help="page with the worst twenty")
    options.add_json(add)
    add("--allow", type=float, default=0.02, metavar="SHARE", help="share of references that may "
        "have a problem")  # fmt: skip
    command.set_defaults(command=audit_references)


def audit_references(flags: argparse.Namespace) -> int:
    from posh_reward.audit.reference_audit import audit_texts, render_page
    from posh_reward.tables.engine import check_column
    from posh_reward.tables.reading import read_row_texts

    options.check_replaceable(str(flags.output) if flags.output else None)
    options.check_replaceable(flags.json, options.FIGURES_START)
    texts, columns = [], dict[str, None]()
    rows = load_rows(flags.input, flags.split, flags.reference)
    for number, row in enumerate(rows, start=1):
        columns |= dict.fromkeys(row)
        texts.append(read_row_texts(row, flags.reference, f"{flags.input}, row {number}"))
    if not any(texts):
        check_column(columns, flags.input, "reference", flags.reference)
        raise InputError(
            f"no row of {flags.input} has a text in the column {flags.reference}: name the right "
            "one with --reference"
        )
    found = audit_texts(texts)
    if flags.output:
        options.write_file(flags.output, render_page(found, [flags.input]).encode())
    options.show_figures(flags, found.figures(), "\n".join(found.lines()))
    return EXIT_FOUND if found.share > flags.allow else EXIT_OK
