"""``posh-reward packets``: make a packet for raters, plan a study."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import OK
from posh_reward.cli.flags import describe, positive, size
from posh_reward.cli.packet_answers import READ, SERVE, add_read, add_serve, write_file
from posh_reward.errors import InputError

if TYPE_CHECKING:
    from posh_reward.study.packets.rater_texts import RaterTexts
    from posh_reward.study.packets.study_images import Album
    from posh_reward.study.rows.table_items import Columns
    from posh_reward.study.rows.tables import Row

PACKETS = """\
People compare what models wrote, without knowing whose it is. `plan` says how many pairs and raters
a difference takes, `make` writes the pages to hand out, `read` sums up what comes back. For whoever
runs the study, step by step: docs/study.md."""
MAKE = """\
Writes a folder to hand over and, outside it, the key that says whose each generation is. Each rater
gets one page that works by double click, without a network. The same tasks are there for Label
Studio.

GENERATIONS are rows with id, model, generation, reference and image, as recipes/generate.py and
`posh-reward score` write them; all models in one file, or a file for each (without a column model,
the file's name is the model's). Only ids that all models wrote about are used.

No rater sees a generation twice; either model is #1 equally often; a share of the tasks goes to
several raters, to measure agreement. The same --seed gives the same files, byte for byte."""
PLAN = """\
Says, by simulation, how many pairs, raters and hours it takes to settle a difference, and what a
given number of pairs can settle, by the interval that `read` prints. Raters agree as in the paper
(Krippendorff's alpha by axis, Table 7) unless --alpha is given."""

TEXTS = """\
Writes every word that raters read, in one of five languages: questions, instructions, heading,
contact, buttons. Edit what you like, delete what is to stay as it is, and give the file to
`posh-reward packets make --texts`."""


def add_packets(command: argparse.ArgumentParser) -> None:
    """Add all commands below ``packets``."""
    describe(command, PACKETS)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    _make(describe(commands.add_parser("make", help="write pages for raters"), MAKE))
    add_read(describe(commands.add_parser("read", help="sum up raters' answers"), READ))
    add_serve(describe(commands.add_parser("serve", help="a link for each rater"), SERVE))
    _write_texts(describe(commands.add_parser("texts", help="every word that raters read"), TEXTS))
    _plan(describe(commands.add_parser("plan", help="how many pairs and raters"), PLAN))


def _make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("generations", metavar="GENERATIONS", nargs="+", help="JSON lines, CSV, TSV or Parquet, by "
        "the ending")  # fmt: skip
    add("-o", "--output", metavar="DIR", required=True, help="the folder to hand over; made")
    add("--key", metavar="FILE", help="where the key goes; default: DIR.key.json, next to DIR")
    add("--coarse", type=int, metavar="N", help="raters who compare two generations; default: 7, "
        "or 0 with --ranking")  # fmt: skip
    add("--ranking", type=int, default=0, metavar="N", help="raters who put the generations of "
        "three models in order, in place of comparing two; default: 0")  # fmt: skip
    add("--granular", type=int, default=0, metavar="N", help="raters who mark mistakes and missing "
        "details in one generation; other people than the former; default: 0")  # fmt: skip
    add("--repeated", type=float, default=0.15, metavar="SHARE", help="share of tasks given to "
        "several raters; default: 0.15")  # fmt: skip
    add("--times", type=int, default=3, metavar="N", help="raters for each of these; default: 3")
    add("--after", metavar="KEY", action="append", default=[], help="key of an earlier packet of "
        "the study, to which this one adds images for the same raters; ids that are in it are left "
        "out. May be given several times")  # fmt: skip
    add("--new-raters", action="store_true", help="with --after: all images, for further people")
    add("--limit", type=positive, metavar="N", help="use only the first N ids")
    add("--seed", type=int, help="default: a fresh one, which nobody can guess; it is in the key")
    for name in ("generation", "reference", "id", "model", "image"):
        add(f"--{name}", metavar="COLUMN", default=name, help=f"default: {name}")
    add("--delimiter", metavar="CHARACTER", help="between the cells of an input in CSV, such as "
        "';', as spreadsheets in many countries write; default: comma, or tab for TSV")  # fmt: skip
    add("--dataset", metavar="NAME", help="whose rows image numbers, as recipes/generate.py writes "
        "it, such as scenes (data/README.md)")  # fmt: skip
    add("--split", default="test", help="of the dataset; default: test")
    add("--no-images", action="store_true", help="raters judge by the reference alone")
    add("--no-reference", action="store_true", help="raters judge by the image alone: there is no "
        "correct description")  # fmt: skip
    add("--language", metavar="LANGUAGE", help="of the pages: en, nl, de, fr or es; default: en")
    add("--texts", metavar="FILE", help="your questions, instructions, heading and contact: what "
        "`packets texts` writes, edited")  # fmt: skip
    add("--suggest", action="store_true", help="granular: show what POSH marks (rows of `score "
        "--elements`). Biases raters: never for a study of POSH itself")  # fmt: skip
    add("--potato", action="store_true", help="also write a project for each rater for Potato "
        "(potato-annotation 2.12.1)")  # fmt: skip
    command.set_defaults(command=make)


def make(flags: argparse.Namespace) -> int:
    """Write a packet and its key."""
    import secrets
    from itertools import chain

    from posh_reward.study.packets.draw import Design
    from posh_reward.study.packets.later_packets import join_keys, later_items
    from posh_reward.study.packets.make import (
        digest,
        make_packet,
        rater_load,
        read_key,
        write_packet,
    )
    from posh_reward.study.packets.study_items import StudyItems, items_of
    from posh_reward.study.rows.table_items import Columns

    seed = secrets.randbits(64) if flags.seed is None else flags.seed
    coarse = flags.coarse if flags.coarse is not None else 0 if flags.ranking else 7
    reference = None if flags.no_reference else flags.reference
    texts = {"generation": flags.generation, "reference": reference}
    columns = Columns(texts, flags.id, flags.model, flags.image)
    files = [Path(name) for name in flags.generations]
    rows = chain.from_iterable(_rows(file, columns, flags, len(files) > 1) for file in files)
    whole = items_of(rows, columns, suggest=flags.suggest)
    items = StudyItems(whole.models, whole.items[: flags.limit], whole.incomplete)
    earlier = join_keys([read_key(Path(name)) for name in flags.after]) if flags.after else None
    if earlier is not None:
        items = later_items(items, earlier, new_raters=flags.new_raters)
    elif flags.new_raters:
        raise InputError("--new-raters are new to an earlier packet: name its key with --after")
    before = len(earlier.raters) if earlier is not None and flags.new_raters else 0
    design = Design(
        seed, coarse, flags.granular, flags.repeated, flags.times, flags.ranking, before
    )
    folder = Path(flags.output)
    key = Path(flags.key) if flags.key else folder.with_name(folder.name + ".key.json")
    inputs = {file.name: digest(file.read_bytes()) for file in files}
    packet = make_packet(
        items,
        design,
        _album(flags, files),
        inputs,
        texts=_texts(flags),
        earlier=earlier,
        with_potato=flags.potato,
    )
    write_packet(packet, folder, key)
    say = [f"{len(items.items)} items of {', '.join(map(repr, items.models))}"]
    if whole.incomplete:
        left = len(whole.incomplete)
        say.append(f"left out {left} id{'s' * (left != 1)} that not all models wrote about")
    if same := len(packet.key.identical):
        pairs = f"{same} pair{'s' * (same != 1)} of equal texts"
        say.append(f"{pairs}: nobody is asked, and they count as ties")
    say += rater_load(packet.key)
    in_words = size(sum(map(len, packet.files.values())))
    say.append(f"wrote {str(folder)!r} ({in_words}), to hand over; start with "
               "READ-ME-FIRST.txt")  # fmt: skip
    say.append(f"wrote {str(key)!r}: keep it, and keep it from the raters")
    print("\n".join(say), file=sys.stderr)
    return OK


def _rows(file: Path, columns: Columns, flags: argparse.Namespace, several: bool) -> Iterator[Row]:
    from posh_reward.study.packets.study_items import rows_with_models
    from posh_reward.study.rows.table_items import check_column
    from posh_reward.study.rows.tables import display_name, format_of, open_table

    images = {} if flags.no_images else {"image": columns.image}
    texts = {name: column for name, column in columns.texts.items() if column}
    needed = {"id": columns.id, **texts, **images}
    with open_table(str(file), format_of(str(file), None, flags.delimiter)) as rows:
        column = columns.model or "model"
        rows_of_file = rows_with_models(rows, column, file.stem if several else None)
        for number, row in enumerate(rows_of_file):
            for flag, name in needed.items() if number == 0 else ():
                check_column(row, display_name(str(file)), flag, name)
            yield row


def _album(flags: argparse.Namespace, files: list[Path]) -> Album | None:
    if flags.no_images:
        return None
    from posh_reward.cli.flags import dataset_of
    from posh_reward.study.packets.study_images import Album

    return Album([file.parent for file in files], dataset_of(flags))


def _texts(flags: argparse.Namespace) -> RaterTexts:
    from posh_reward.study.packets.rater_texts import read_texts, texts_source

    if flags.language:
        texts_source(flags.language)  # an unknown one is an error
    if flags.texts is None:
        return read_texts("", flags.language)
    try:
        own = Path(flags.texts).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the texts {flags.texts!r}: {error}") from None
    return read_texts(own, flags.language)


def _write_texts(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--language", default="en", metavar="LANGUAGE", help="en, nl, de, fr or es; default: en")
    add("-o", "--output", metavar="FILE", help="default: to the terminal")
    command.set_defaults(command=texts)


def texts(flags: argparse.Namespace) -> int:
    """Write the texts that raters read, to edit."""
    from posh_reward.cli.flags import write_text
    from posh_reward.study.packets.rater_texts import texts_source

    source = texts_source(flags.language)
    if flags.output is None:
        write_text(source.rstrip("\n"))
    else:
        write_file(Path(flags.output), source.encode("utf-8"))
    return OK


def _plan(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--difference", type=float, default=0.3, metavar="D", help="mean preference to settle, "
        "above 0 to 2; default: 0.3")  # fmt: skip
    add("--pairs", type=int, default=40, metavar="N", help="what could so many settle? "
        "default: 40, the paper's")  # fmt: skip
    add("--raters", type=int, nargs="+", default=[1, 2, 3], metavar="N", help="for each pair, to "
        "compare; default: 1 2 3")  # fmt: skip
    add("--team", type=int, default=7, metavar="N", help="raters in all; default: 7")
    add("--lean", type=float, default=0.3, metavar="SD", help="raters' tastes: how far each leans "
        "to one model, as a standard deviation on a scale on which answers have 1; default: 0.3. "
        "0: for these raters only")  # fmt: skip
    add("--statements", type=int, default=3, metavar="N", help="axes times pairs of models, for "
        "which the page corrects; default: 3")  # fmt: skip
    add("--power", type=float, default=0.8, metavar="P", help="chance of settling it; default: 0.8")
    add("--alpha", type=float, metavar="A", help="how far raters agree, on one axis; default: the "
        "paper's three")  # fmt: skip
    add("--equal", type=float, default=0.2, metavar="SHARE", help="of the answer Equal, if the "
        "models are equally good; default: 0.2")  # fmt: skip
    add("--much", type=float, default=0.3, metavar="SHARE", help="of both much better, if they "
        "are; default: 0.3")  # fmt: skip
    add("--seed", type=int, default=0, help="default: 0")
    command.set_defaults(command=plan)


def plan(flags: argparse.Namespace) -> int:
    """Print what a study of some size can settle."""
    from dataclasses import fields

    from posh_reward.cli.flags import write_text
    from posh_reward.study.packets.study_plan import PlanSettings, plan_table, plans

    settings = PlanSettings(**{each.name: getattr(flags, each.name)
                               for each in fields(PlanSettings)})  # fmt: skip
    alphas = None if flags.alpha is None else {"given": flags.alpha}
    write_text(plan_table(plans(settings, flags.raters, alphas), settings))
    return OK
