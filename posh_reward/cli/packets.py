"""``posh-reward packets``: plan a study, make a packet, serve it, read the answers."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from posh_reward.cli import EXIT_INCOMPLETE, EXIT_OK, options
from posh_reward.errors import InputError, MissingDependencyError, install_command, on_one_line

if TYPE_CHECKING:
    from posh_reward.study.packets.make import Packet, StudyItems
    from posh_reward.study.packets.rater_answers import AnswerCollection
    from posh_reward.study.packets.study_records import KnownItem, PacketKey, Purpose, RaterTexts
    from posh_reward.tables.engine import Columns
    from posh_reward.tables.references import ReferenceFile
    from posh_reward.tables.tables import Row


READ_HELP = """\
Read raters' files (saved by the page, or exported as JSON by Label Studio) and report which model
people prefer. Preferences run from -2 to 2; above 0 the later model of the input is better. A
damaged, changed, foreign, unfinished or duplicate file is refused with the reason, and the exit
status is 3; the others count. Of several files of one rater the newest counts. The page says how
often new answers were read (KEY.readings.jsonl)."""
SERVE_HELP = """\
Show each rater a page behind a private link, and store each answer on disk before the page calls it
sent. `posh-reward packets read` can read the folder of answers at any time. Anyone with a link can
answer; the links' tokens are in KEY.links.csv. On the public internet, put a TLS proxy in front and
pass its address as --url. A further link, for the organiser alone, shows how far each rater is."""
DEFAULT_TIMES = 3  # raters of a repeated task, if there are as many
ANSWERS_SUFFIX = ".json"  # of files that are read in a folder of answers


def add_read(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("key", metavar="KEY", help="key that `packets make` wrote")
    add("answers", metavar="ANSWERS", nargs="+", help="raters' files, or folders of them")
    add("-o", "--output", metavar="OUT", help="table to write, with one row per answer to each "
        "question, for R or pandas: .csv, .tsv, .jsonl or .parquet")  # fmt: skip
    add("--pairs", metavar="OUT", help="table to write for `posh-reward agreement pairs`: one row "
        "per comparison and rater, with both texts in the order shown, the labels, the number of "
        "the pair's raters and the comment")  # fmt: skip
    add("--spans", metavar="OUT", help="table to write for `posh-reward agreement spans`: one row "
        "per marked text and rater")  # fmt: skip
    add("--delimiter", metavar="CHAR", help="cell separator of CSV written; with ';' numbers have "
        "decimal commas, as a German Excel wants them")  # fmt: skip
    options.add_reports(command)
    add("--partial", action="store_true", help="use the finished part of unfinished files")
    add("--leave-out", metavar="RATER", action="append", default=[], help="rater whose answers to "
        "ignore, such as rater-03; repeatable")  # fmt: skip
    add("--packet", metavar="DIR", help="folder handed out, to check that the key belongs to it")
    add("--title", default="What people preferred", help="heading of the page")
    command.set_defaults(command=read_answers)


def read_answers(flags: argparse.Namespace) -> int:
    from posh_reward.study.packets import judged_tables, rater_answers, results, results_page
    from posh_reward.tables import tables

    for output in filter(None, (flags.output, flags.pairs, flags.spans, flags.json, flags.page)):
        tables.check_apart(flags.key, output)
    for output in filter(None, (flags.output, flags.pairs, flags.spans)):
        tables.find_format(output, flags.delimiter)  # before anything is printed
    options.check_replaceable(flags.page)
    options.check_replaceable(flags.json, options.FIGURES_START)
    key, collection = _collect_answers(flags)
    if not collection.sheets:
        raise InputError("no file of answers counts: see the reasons above")
    readings = rater_answers.count_reading(
        _name_beside(Path(flags.key), ".readings.jsonl"), collection.answers
    )
    study = results.compute_results(collection, key, flags.leave_out, readings)
    options.show_figures(flags, asdict(study), results_page.summary_text(study))
    if flags.page:
        page = results_page.results_page(study, flags.title)
        options.write_file(Path(flags.page), page.encode("utf-8"))
    answers = results.select_answers(collection, flags.leave_out)
    for output, list_rows in (
        (flags.output, results.list_answer_rows),
        (flags.pairs, judged_tables.list_pair_rows),
        (flags.spans, judged_tables.list_span_rows),
    ):
        if output:
            _write_private_table(list(list_rows(answers, key)), output, flags.delimiter)
    return EXIT_INCOMPLETE if collection.refusals else EXIT_OK


def _write_private_table(rows: list[Row], output: str, delimiter: str | None) -> None:
    from posh_reward.study.packets.results_page import count_text
    from posh_reward.tables import tables

    if not rows:
        raise InputError(f"no answer belongs into {output!r}: --pairs takes comparisons, --spans "
                         "marked texts")  # fmt: skip
    private = 0o600  # people's own answers and comments
    format = tables.find_format(output, delimiter)
    if format.delimiter == ";":
        rows = list(map(_use_decimal_commas, rows))
    tables.write_table(rows, Path(output), format, private)
    print(f"wrote {output!r} ({count_text(len(rows), 'row')})", file=sys.stderr)


def _use_decimal_commas(row: Row) -> Row:
    return {
        name: str(cell).replace(".", ",") if isinstance(cell, float) else cell
        for name, cell in row.items()
    }


def _collect_answers(flags: argparse.Namespace) -> tuple[PacketKey, AnswerCollection]:
    """Read the key and the raters' files; print what does not count."""
    from posh_reward.study.packets.make import read_key
    from posh_reward.study.packets.rater_answers import collect_answers

    key = read_key(Path(flags.key), Path(flags.packet) if flags.packet else None)
    unknown = [name for name in flags.leave_out if name not in key.raters]
    if unknown:
        raise InputError(f"unknown rater {unknown[0]!r}: choose from {', '.join(key.raters)}")
    collection = collect_answers(list_answer_files(flags.answers), key, partial=flags.partial)
    for verb, notes in (("refused", collection.refusals), ("not counted", collection.superseded)):
        for note in notes:
            print(f"{verb} {on_one_line(note)}", file=sys.stderr)
    for name in collection.missing:
        print(f"nothing counts yet from {name}", file=sys.stderr)
    return key, collection


def list_answer_files(names: list[str]) -> list[Path]:
    """List the files named and those in folders named; print which cannot hold answers."""
    paths: list[Path] = []
    for path in map(Path, names):
        if not path.is_dir():
            paths.append(path)
            continue
        for file in sorted(path.iterdir()):
            if file.suffix.lower() == ANSWERS_SUFFIX:
                paths.append(file)
            elif not file.name.startswith("."):
                print(f"not read: {str(file)!r}: if it has answers, rename it to end in "
                      f"{ANSWERS_SUFFIX}", file=sys.stderr)  # fmt: skip
    return paths


def _name_beside(key: Path, ending: str) -> Path:
    return key.with_name(key.name.removesuffix(".key.json") + ending)


def add_serve(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("key", metavar="KEY", help="key that `packets make` wrote")
    add("packet", metavar="PACKET", help="folder that it wrote")
    add("--answers", metavar="DIR", help="folder for answers (default: next to KEY, with its name "
        "and the ending .answers)")  # fmt: skip
    add("--host", default="127.0.0.1", help="address to listen at; the default is this machine "
        "alone: 127.0.0.1")  # fmt: skip
    add("--port", type=int, default=8000, help="port to listen at")
    add("--url", help="address that raters use, such as https://study.museum.example (default: "
        "http://HOST:PORT; needed with --host 0.0.0.0); others are refused")  # fmt: skip
    command.set_defaults(command=serve_packet)


def serve_packet(flags: argparse.Namespace) -> int:
    try:
        from posh_reward.serve.hosts import format_address, is_wildcard
        from posh_reward.serve.study_app import ORGANISER, read_tokens, study_app
    except ImportError:
        why = f"`packets serve` needs a server: {install_command('serve')}"
        raise MissingDependencyError(why) from None
    from posh_reward.cli.serve_command import bind_socket, build_server
    from posh_reward.study.packets.make import read_key

    path, folder = Path(flags.key), Path(flags.packet)
    key = read_key(path, folder)
    answers = Path(flags.answers) if flags.answers else _name_beside(path, ".answers")
    links = _name_beside(path, ".links.csv")
    name = urlsplit(flags.url or "").hostname
    if flags.url and not name:
        raise InputError(f"--url {flags.url!r} has no host: use https://study.museum.example")
    if not flags.url and is_wildcard(flags.host):
        raise InputError(
            f"--host {flags.host} listens at all addresses of this machine, so name the one that "
            f"raters use, such as --url http://{socket.gethostname()}:{flags.port}"
        )
    tokens = read_tokens(links, key.raters)
    organiser = read_tokens(_name_beside(path, ".organiser.csv"), [ORGANISER])
    names = [name] if name else []
    app = study_app(key, folder, answers, tokens, names, organiser)
    with bind_socket(flags.host, flags.port) as bound:
        bound.listen(128)  # before the links are printed
        url = (flags.url or format_address(flags.host, bound.getsockname()[1])).rstrip("/")
        lines = [f"{rater}  {url}/r/{token}" for token, rater in tokens.items()]
        lines += [f"progress, for you alone  {url}/o/{token}" for token in organiser]
        print("\n".join([*lines, f"tokens are in {str(links)!r}; answers go to {str(answers)!r}"]),
              file=sys.stderr, flush=True)  # fmt: skip
        build_server(app).run([bound])
    return EXIT_OK


PACKETS_HELP = """\
Have people compare what models wrote, without knowing which model wrote it, in five steps:

  1. packets plan: how many images and people it takes
  2. packets make: from a spreadsheet, a page for each person, and your key
  3. send each person their page; or `packets serve`, and send each a link
  4. see how far they are: by `packets serve`, or the files that come back
  5. packets read: what people prefer

docs/study.md walks through a study."""
MAKE_HELP = """\
Write a folder to hand out and, outside it, the key that says which model wrote each generation.
Each rater gets one page, which opens by double click and needs no network. The same tasks are
written for Label Studio.

GENERATIONS is a spreadsheet in which each row has the name of an image file, a reference and a text
of each model, in columns named with --generation; --images names the folder of images. Or it has
rows with id, model, generation, reference and image, as recipes/generate.py and `posh-reward score`
write them: all models in one file, or one file per model (without a model column, the file's name
is the model's). Only ids that every model described are used.

Each rater's time is estimated: all texts read aloud, at 150 words a minute, and a minute to judge
each task; to mark words, 18 minutes a task, as in the paper.

No rater sees a generation twice; either model is #1 equally often; some tasks go to several raters,
to measure agreement. The same --seed gives the same files, byte for byte."""
PLAN_HELP = """\
Estimate by simulation how many pairs, raters and hours it takes to settle a difference, and the
chance that a given number of pairs settles it, by the interval that `read` prints. Raters agree as
in the paper (Krippendorff's alpha by axis, Table 7) unless --alpha is given."""
PUSH_HELP = """\
Create a project in Label Studio for each rater, with instructions, labelling setup and tasks, and
print its address. The access token of your account is read from LABEL_STUDIO_API_KEY. Practice
and what the page asks about raters are left out. Export each project as JSON for `packets read`."""
TEXTS_HELP = """\
Write every text that raters read, in one of five languages: questions, instructions, heading,
contact, buttons. Edit what you like, delete what is to stay as it is, and pass the file to
`posh-reward packets make --texts`."""


def add_packets(command: argparse.ArgumentParser) -> None:
    commands = options.add_subcommands(command, PACKETS_HELP)
    for name, line, text, example, add in (
        ("make", "write pages for raters", MAKE_HELP,
         "make paintings.xlsx --images photos --generation model_a --generation model_b -o packet",
         _add_make),
        ("read", "sum up raters' answers", READ_HELP,
         "read runs/packet.key.json answers/ --page runs/result.html", add_read),
        ("serve", "serve each rater a page behind a link", SERVE_HELP,
         "serve runs/packet.key.json runs/packet", add_serve),
        ("push", "create projects in Label Studio", PUSH_HELP,
         "push runs/packet.key.json runs/packet --url http://localhost:8080", _add_push),
        ("texts", "write the texts that raters read, to edit", TEXTS_HELP,
         "texts --language nl -o texts.yaml", _add_texts),
        ("plan", "estimate how many pairs and raters are needed", PLAN_HELP,
         "plan --difference 0.3 --raters 1 2 3", _add_plan),
    ):  # fmt: skip
        add(options.add_subcommand(commands, name, line, text, f"packets {example}"))


def _add_make(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("generations", metavar="GENERATIONS", nargs="+", help="tables to read: "
        f"{options.INPUT_FORMATS}")  # fmt: skip
    add("-o", "--output", metavar="DIR", required=True, help="folder to write and hand out")
    add("--key", metavar="FILE", help="key to write (default: DIR.key.json, next to DIR)")
    add("--coarse", type=int, default=7, help="raters who compare two generations")
    add("--granular", type=int, default=0, help="raters who mark mistakes and missing details in "
        "one generation; other people than the former")  # fmt: skip
    add("--language", help="language of the pages: en, nl, de, fr or es (default: en)")
    add("--texts", metavar="FILE", help="edited output of `packets texts`: your questions, "
        "instructions, heading and contact")  # fmt: skip
    add("--practice", metavar="FILE", help="table of items to practise on, whose right answer is "
        "shown afterwards: image, reference, better, worse (the two texts) and why")  # fmt: skip
    add("--attention", metavar="FILE", help="table of items with the same columns that stand among "
        "the tasks; results flag raters who do not find `better` better")  # fmt: skip
    add("--no-images", action="store_true", help="show no images: raters judge by the reference")
    add("--no-reference", action="store_true", help="show no reference: raters judge by the image")
    options.add_differences(add)
    options.add_dataset(add)
    reading = options.add_reading(command, "reference", "id", "model", "image")
    reading("--generation", metavar="COLUMN", action="append", help="generation column (default: "
            "generation); repeat it if each model has a column of its own")  # fmt: skip
    reading("--images", metavar="DIR", type=Path, help="folder with the image files (default: the "
            "table's)")  # fmt: skip
    options.add_reference_file(reading)
    drawing = command.add_argument_group("drawing tasks").add_argument
    drawing("--repeated", type=float, default=0.15, metavar="SHARE", help="share of tasks given to "
            "several raters")  # fmt: skip
    drawing("--times", type=int, help="raters for each of these tasks (default: 3, or all)")
    drawing("--limit", type=options.positive, help="use only the first N ids")
    drawing("--seed", type=int, help="seed of the draw (default: random; it is in the key); who "
            "guesses it can tell which model wrote what")  # fmt: skip
    command.set_defaults(command=make_packet, id=None)


def make_packet(flags: argparse.Namespace) -> int:
    import secrets

    from posh_reward.study.packets import draw, make

    items = _read_items(flags)
    seed = secrets.randbits(64) if flags.seed is None else flags.seed
    times = flags.times
    if times is None:
        times = min([DEFAULT_TIMES, *filter(None, (flags.coarse, flags.granular))])
    design = draw.Design(seed, flags.coarse, flags.granular, flags.repeated, times)
    folder = Path(flags.output)
    key = Path(flags.key) if flags.key else folder.with_name(folder.name + ".key.json")
    names = filter(None, (*flags.generations, flags.practice, flags.attention))
    files = list(map(Path, names))
    album = None
    if not flags.no_images:
        dataset = options.load_dataset_images(flags)
        album = make.Album([file.parent for file in files], dataset)
    inputs = {file.name: make.sha256_hex(file.read_bytes()) for file in files}
    packet = make.make_packet(items, design, album, inputs, texts=_load_texts(flags))
    make.write_packet(packet, folder, key)
    lines = _describe_packet(packet, items)
    total = options.format_size(sum(map(len, packet.files.values())))
    lines.append(f"wrote {str(folder)!r} ({total}) to hand out; start with READ-ME-FIRST.txt")
    lines.append(f"wrote {str(key)!r}: keep it from the raters")
    print("\n".join(lines), file=sys.stderr)
    return EXIT_OK


def _describe_packet(packet: Packet, items: StudyItems) -> list[str]:
    """Say what a packet is made of, and how much each rater has to do."""
    from posh_reward.study.packets.make import list_first
    from posh_reward.study.packets.study_plan import estimate_minutes

    lines = [f"{len(items.items)} items of {', '.join(map(repr, items.models))}"]
    if left := len(items.incomplete):
        names = list_first(list(map(repr, items.incomplete)))
        lines.append(f"left out {left} id{'s' * (left != 1)} that not all models describe: {names}")
    if same := len(packet.key.identical):
        lines.append(f"{same} pair{'s' * (same != 1)} of equal texts: a tie without asking")
    for name, rater in packet.key.raters.items():
        size = f"{len(rater.numbered)} tasks, about {estimate_minutes(rater, packet.key):.0f} min"
        lines.append(f"{name}: {size}: {packet.key.texts.heading[rater.form]}")
    return lines


def _read_items(flags: argparse.Namespace) -> StudyItems:
    """Read what is compared, and the items for practice and attention."""
    from itertools import chain

    from posh_reward.study.packets.make import find_named_models, list_first, read_study_items
    from posh_reward.tables.engine import Columns
    from posh_reward.tables.reading import name_models

    generations = flags.generation or ["generation"]
    model_columns = generations if len(generations) > 1 else []
    texts = {
        "generation": "generation" if model_columns else generations[0],
        "reference": None if flags.no_reference else flags.reference,
    }
    columns = Columns(texts, flags.id or "id", flags.model, flags.image)
    joined = options.get_reference_file(flags)
    rows = chain.from_iterable(
        _read_rows(name, columns, model_columns, flags, joined, model)
        for name, model in name_models(flags.generations).items()
    )
    items = read_study_items(rows, columns, model_columns)
    warnings = []
    if named := find_named_models(items.items[: flags.limit]):
        warnings.append("raters are not to know which model wrote a text, but texts contain their "
                        f"model's name: {list_first(named)}")  # fmt: skip
    options.print_warnings(warnings, joined)
    options.check_alike(items.origins, allowed=flags.allow_differences)
    practice = _read_known(flags.practice, "practice", flags)
    attention = _read_known(flags.attention, "attention", flags)
    return replace(items, items=items.items[: flags.limit], known=(*practice, *attention))


def _read_rows(
    file: str,
    columns: Columns,
    model_columns: list[str],
    flags: argparse.Namespace,
    joined: ReferenceFile | None,
    model: str | None,
) -> Iterator[Row]:
    """Read a table as a row for each text; ``model_columns`` are those of one that has several."""
    from posh_reward.study.packets.make import number_rows, place_images, split_by_model
    from posh_reward.tables.reading import add_model, find_first_line, open_rows
    from posh_reward.tables.tables import display_name

    needed = [("reference", columns.texts["reference"])]
    if model_columns:
        needed += [("generation", column) for column in model_columns]
    else:
        needed += [("generation", columns.texts["generation"]), ("id", columns.id)]
    if flags.id:
        needed.append(("id", flags.id))
    if not flags.no_images:
        needed.append(("image", columns.image))
    with open_rows(file, flags.format, flags.delimiter, columns.texts["generation"] or "") as rows:
        if joined is not None:
            rows = joined.join(rows, repr(file))
        rows = _check_first_row(rows, display_name(file), needed)
        rows = number_rows(rows, display_name(file), find_first_line(file, flags.format))
        if model_columns:
            rows = split_by_model(rows, model_columns, columns)
        if flags.images is not None:
            rows = place_images(rows, columns.image or "image", flags.images)
        yield from add_model(rows, columns.model or "model", model)


def _read_known(
    file: str | None, purpose: Purpose, flags: argparse.Namespace
) -> tuple[KnownItem, ...]:
    """Read a table of items with a right answer, if there is one."""
    from itertools import chain

    from posh_reward.study.packets.make import number_rows, place_images, read_known_items
    from posh_reward.tables.reading import find_first_line, open_rows
    from posh_reward.tables.tables import display_name

    if file is None:
        return ()
    if not flags.coarse:
        raise InputError(f"--{purpose} is for raters who compare, and there are none (--coarse)")
    name = display_name(file)
    with open_rows(file, flags.format, flags.delimiter) as rows:
        first = next(rows, {})
        image, reference = flags.image, flags.reference
        if image not in first:  # these tables may have the study's column names, or the usual ones
            image = "image"
        if reference not in first:
            reference = "reference"
        needed = ["better", "worse"]
        needed += [reference] * (not flags.no_reference) + [image] * (not flags.no_images)
        _check_known_columns(first, f"--{purpose} {name}", needed)
        rows = number_rows(chain([first], rows), name, find_first_line(file, flags.format))
        if flags.images is not None:
            rows = place_images(rows, image, flags.images)
        asked = None if flags.no_reference else reference
        return read_known_items(rows, purpose, reference=asked, image=image)


def _check_known_columns(first: Row, name: str, needed: list[str]) -> None:
    from posh_reward.settings import shorten_list, suggest_name

    if not first:
        raise InputError(f"{name} has no rows")
    for column in needed:
        if column not in first:
            raise InputError(
                f"{name} has no column {column!r}{suggest_name(column, first)}, but "
                f"{shorten_list(first)}: rename the one that is meant"
            )


def _check_first_row(
    rows: Iterator[Row], name: str, needed: list[tuple[str, str | None]]
) -> Iterator[Row]:
    """Pass on rows; ``InputError`` if the first lacks one of the columns, given by flag."""
    from posh_reward.tables.engine import check_column

    for number, row in enumerate(rows):
        if number == 0:
            for flag, column in needed:
                check_column(row, name, flag, column)
        yield row


def _load_texts(flags: argparse.Namespace) -> RaterTexts:
    from posh_reward.study.packets.study_records import read_texts, texts_source

    if flags.language:
        texts_source(flags.language)  # raises for an unknown one
    if flags.texts is None:
        return read_texts("", flags.language)
    try:
        own = Path(flags.texts).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the texts {flags.texts!r}: {error}") from None
    return read_texts(own, flags.language, f"the texts {flags.texts!r}")


def _add_push(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("key", metavar="KEY", help="key that `packets make` wrote")
    add("packet", metavar="PACKET", help="folder that it wrote")
    add("--url", required=True, help="address of Label Studio, such as http://localhost:8080")
    command.set_defaults(command=push_projects)


def push_projects(flags: argparse.Namespace) -> int:
    from posh_reward.study.packets.make import read_key
    from posh_reward.study.packets.push import push_packet

    folder = Path(flags.packet)
    key = read_key(Path(flags.key), folder)
    for rater, address in push_packet(key, folder, flags.url):
        options.write_text(f"{rater}  {address}")
    return EXIT_OK


def _add_texts(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--language", default="en", help="language of the texts: en, nl, de, fr or es")
    add("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    command.set_defaults(command=write_texts)


def write_texts(flags: argparse.Namespace) -> int:
    from posh_reward.study.packets.study_records import texts_source

    source = texts_source(flags.language)
    if flags.output is None:
        options.write_text(source.rstrip("\n"))
    elif Path(flags.output).is_file():  # perhaps edited
        raise InputError(f"{flags.output!r} already exists: choose another file, or delete it")
    else:
        options.write_file(Path(flags.output), source.encode("utf-8"))
    return EXIT_OK


def _add_plan(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--difference", type=float, default=0.3, help="mean preference to settle, above 0 to 2")
    add("--pairs", type=int, default=40, help="number of pairs whose power to report; the paper "
        "has 40")  # fmt: skip
    add("--raters", type=int, nargs="+", default=[1, 2, 3], help="raters per pair, to compare "
        "(default: 1 2 3)")  # fmt: skip
    add("--team", type=int, default=7, help="raters in all")
    add("--words", type=int, default=600, help="words of the reference and two texts: "
        "hours are for reading them aloud, and a minute to judge")  # fmt: skip
    add("--seed", type=int, default=0, help="seed of the simulation")
    add = command.add_argument_group("assumptions").add_argument
    add("--lean", type=float, default=0.3, metavar="SD", help="spread of raters' tastes: standard "
        "deviation of how far each leans to one model, where answers have 1; 0 generalises to "
        "these raters only")  # fmt: skip
    add("--statements", type=int, default=3, help="axes times pairs of models, for which `read` "
        "corrects")  # fmt: skip
    add("--alpha", type=float, help="agreement of raters on one axis (default: the paper's three)")
    command.set_defaults(command=plan_study)


def plan_study(flags: argparse.Namespace) -> int:
    from dataclasses import fields

    from posh_reward.study.packets.study_plan import PlanSettings, plan_axes, plan_table

    settings = PlanSettings(
        **{each.name: getattr(flags, each.name) for each in fields(PlanSettings)}
    )
    alphas = None if flags.alpha is None else {"given": flags.alpha}
    options.write_text(plan_table(plan_axes(settings, flags.raters, alphas), settings))
    return EXIT_OK
