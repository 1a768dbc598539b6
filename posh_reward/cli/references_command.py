"""``posh-reward audit-references``: find the references that a policy should not learn from."""

from __future__ import annotations

import argparse
from pathlib import Path

from posh_reward.cli import OK, options
from posh_reward.errors import InputError

AUDIT = """\
Audit references before training on them (docs/audit.md): terse, contradictory, duplicated, foreign
or list-like ones, details per 100 words, and what a policy would learn to omit: what is said in
long references but not in short ones. Its exit status is 1 if more references have a problem than
--allow."""
FOUND = 1


def add_references(command: argparse.ArgumentParser) -> None:
    options.describe(command, AUDIT, "audit-references rows.jsonl -o references.html")
    add = command.add_argument
    add("input", metavar="INPUT", help="table with a column of references, or a dataset's name")
    add("--split", default="train", help="split of a dataset")
    add("--reference", default="reference", metavar="COLUMN", help="column of references: a text "
        "or a list of texts about one image")  # fmt: skip
    add("-o", "--output", type=Path, metavar="HTML", help="page with the worst twenty")
    add("--allow", type=float, default=0.02, metavar="SHARE", help="share of references that may "
        "have a problem")  # fmt: skip
    command.set_defaults(command=audit_references)


def audit_references(flags: argparse.Namespace) -> int:
    from posh_reward.datasets.load_dataset import is_drawn, load_images
    from posh_reward.study.agreement.judgment_files import read_rows
    from posh_reward.study.reference_audit import audit, page

    options.check_replaceable(str(flags.output) if flags.output else None)
    name, split = flags.input, flags.split
    rows = load_images(name, split) if is_drawn(name) else read_rows(name, split=split)
    cells = [row.get(flags.reference) for row in rows]
    several = [each if isinstance(each, list) else [each] for each in cells]
    texts = [[text for text in some if isinstance(text, str) and text.strip()] for some in several]
    if not any(texts):
        raise InputError(f"no row of {name} has a text in the column {flags.reference}")
    found = audit(texts)
    if flags.output:
        options.write_file(flags.output, page(found, [flags.input]).encode())
    options.write_text("\n".join(found.lines()))
    return FOUND if found.share > flags.allow else OK
