"""``posh-reward packets read`` and ``serve``: raters' answers, from files or online."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, OK
from posh_reward.cli.flags import FIGURES, INPUTS, check_replaceable, write_file, write_text
from posh_reward.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from posh_reward.study.packets.answer_files import AnswerCollection
    from posh_reward.study.packets.study_records import PacketKey

READ = """\
Read raters' files (saved by the page, exported as JSON by Label Studio, or Potato's
user_state.json at any depth of a folder) and report which model people prefer. Preferences run from
-2 to 2; above 0 the later model of the input is better. A damaged, changed, foreign, unfinished or
duplicate file is refused with the reason, and the exit status is 3; the others count. Of several
files of one rater the newest counts. Packets made with `make --after` are read together with
--join. Each look at new answers is recorded next to the key (KEY.looks.jsonl): the more looks, the
stricter the tests."""
SERVE = """\
Show each rater a page behind a private link, and store each answer on disk before the page calls it
sent. `posh-reward packets read` can read the folder of answers at any time. Anyone with a link can
answer; the links' tokens are in KEY.links.csv. On the public internet, put a TLS proxy in front and
pass its address as --url."""
ANSWERS = (".json", ".txt")
"""Endings of files that are read in a folder of answers; .txt: pasted from an e-mail."""
POTATO = "user_state.json"  # Potato's name for a rater's answers


def add_answers(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``collect_answers``."""
    add = command.add_argument
    add("key", metavar="KEY", help="key that `packets make` wrote")
    add("answers", metavar="ANSWERS", nargs="+", help="raters' files, or folders of them")
    add("--join", metavar="KEY", action="append", default=[], help="key of another packet of the "
        "study (`make --after`) whose answers are among the files; repeatable")  # fmt: skip
    add("--partial", action="store_true", help="use the finished part of unfinished files")
    add("--leave-out", metavar="RATER", action="append", default=[], help="rater whose answers to "
        "ignore, such as rater-03; repeatable")  # fmt: skip


def add_read(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``packets read``."""
    add = command.add_argument
    add_answers(command)
    add("-o", "--output", metavar="HTML", help="write a page with plots")
    add("--json", metavar="FILE", help="write all figures as JSON")
    add("--rows", metavar="FILE", help=f"write single answers as a table: {INPUTS}")
    add("--long", metavar="CSV", help="write one row per answer to each question, for R or pandas, "
        "with a codebook next to it")  # fmt: skip
    add("--packet", metavar="DIR", help="folder handed out, to check that the key belongs to it")
    add("--final", action="store_true", help="treat the study as complete although answers are "
        "missing: no more will come")  # fmt: skip
    add("--title", default="What people preferred", help="heading of the page")
    command.set_defaults(command=read)


def read(flags: argparse.Namespace) -> int:
    """Sum up answers."""
    from posh_reward.study.packets.answer_files import record_look
    from posh_reward.study.packets.make import as_json
    from posh_reward.study.packets.results import answers_that_count, judgments, results
    from posh_reward.study.packets.results_page import results_page, summary
    from posh_reward.study.rows.journal import check_apart
    from posh_reward.study.rows.table_writer import write_table
    from posh_reward.study.rows.tables import format_of

    for output in filter(None, (flags.output, flags.json, flags.rows, flags.long)):
        check_apart(flags.key, output)
    check_replaceable(flags.output)
    check_replaceable(flags.json, FIGURES)
    key, collection = collect_answers(flags, Path(flags.packet) if flags.packet else None)
    if not collection.sheets:
        raise InputError("no file of answers counts: see the reasons above")
    look_file = _beside(Path(flags.key), ".looks.jsonl")
    looks = record_look(look_file, collection.answers, key, final=flags.final)
    study = results(collection, key, flags.leave_out, looks)
    write_text(summary(study))
    if flags.output:
        write_file(Path(flags.output), results_page(study, flags.title).encode("utf-8"))
    if flags.json:
        write_file(Path(flags.json), as_json(asdict(study), indent=1))
    answers = answers_that_count(collection, flags.leave_out)
    if flags.rows:
        write_table(judgments(answers, key), Path(flags.rows), format_of(flags.rows))
    if flags.long:
        from posh_reward.study.packets.long_table import codebook_csv, long_csv, long_rows

        path = Path(flags.long)
        write_file(path, long_csv(long_rows(answers, key)))
        write_file(path.with_name(path.stem + ".codebook.csv"), codebook_csv(key))
    return INCOMPLETE if collection.refusals else OK


def collect_answers(
    flags: argparse.Namespace, folder: Path | None = None
) -> tuple[PacketKey, AnswerCollection]:
    """Read the keys and the raters' files that the flags name; print what does not count."""
    from posh_reward.study.packets.answer_files import collect
    from posh_reward.study.packets.later_packets import join_keys
    from posh_reward.study.packets.make import read_key
    from posh_reward.study.packets.results_page import files_that_do_not_count

    keys = [read_key(Path(flags.key), folder), *(read_key(Path(name)) for name in flags.join)]
    key = join_keys(keys)
    unknown = [name for name in flags.leave_out if name not in key.raters]
    if unknown:
        raise InputError(f"unknown rater {unknown[0]!r}: choose from {', '.join(key.raters)}")
    collection = collect(answer_files(flags.answers), *keys, partial=flags.partial)
    if notes := files_that_do_not_count(
        [*map(str, collection.refusals)], collection.missing, [*map(str, collection.superseded)]
    ):
        print(notes, file=sys.stderr)
    return key, collection


def _beside(key: Path, ending: str) -> Path:
    return key.with_name(key.name.removesuffix(".key.json") + ending)


def answer_files(names: list[str]) -> list[Path]:
    """List the files named and those in folders named; print which cannot hold answers."""
    paths: list[Path] = []
    for path in map(Path, names):
        if path.is_dir():  # Potato saves deeper: annotation_output/NAME
            paths += (each for each in sorted(path.rglob(POTATO)) if each.parent != path)
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_dir() and any(file.rglob(POTATO)):
                continue
            if file == path or file.suffix.lower() in ANSWERS:
                paths.append(file)
            elif not file.name.startswith("."):
                print(f"not read: {str(file)!r}: it does not end in {' or '.join(ANSWERS)}",
                      file=sys.stderr)  # fmt: skip
    return paths


def add_serve(command: argparse.ArgumentParser) -> None:
    """Add the flags of ``packets serve``."""
    add = command.add_argument
    add("key", metavar="KEY", help="key that `packets make` wrote")
    add("packet", metavar="PACKET", help="folder that it wrote")
    add("--answers", metavar="DIR", help="folder for answers (default: next to KEY, with its name "
        "and the ending .answers)")  # fmt: skip
    add("--host", default="127.0.0.1", help="address to listen at; the default is this machine "
        "alone: 127.0.0.1")  # fmt: skip
    add("--port", type=int, default=8000, help="port to listen at")
    add("--url", help="address that raters use, such as https://study.museum.example (default: "
        "http://HOST:PORT)")  # fmt: skip
    command.set_defaults(command=serve)


def serve(flags: argparse.Namespace) -> int:
    """Serve a packet until interrupted."""
    try:
        from posh_reward.serve.gate import server_of
        from posh_reward.serve.study_app import read_tokens, study_app
    except ImportError:
        why = "`packets serve` needs a server: pip install 'posh-reward[serve]'"
        raise MissingDependencyError(why) from None
    from posh_reward.cli.serve_command import address_of, server_socket
    from posh_reward.study.packets.make import read_key

    path, folder = Path(flags.key), Path(flags.packet)
    key = read_key(path, folder)
    answers = Path(flags.answers) if flags.answers else _beside(path, ".answers")
    links = _beside(path, ".links.csv")
    tokens = read_tokens(links, key.raters)
    app = study_app(key, folder, answers, tokens)
    with server_socket(flags.host, flags.port) as bound:
        bound.listen(128)  # before the links are printed
        url = (flags.url or address_of(flags.host, bound.getsockname()[1])).rstrip("/")
        lines = [f"{rater}  {url}/r/{token}" for token, rater in tokens.items()]
        print("\n".join([*lines, f"tokens are in {str(links)!r}; answers go to {str(answers)!r}"]),
              file=sys.stderr, flush=True)  # fmt: skip
        server_of(app).run([bound])
    return OK
