"""Generations -> a folder to hand over, and the key, which stays."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from posh_reward.errors import InputError, MissingDependencyError, cut_middle
from posh_reward.metrics.metric import package_version, read_reference
from posh_reward.pages.html import LocalImages, image_uri, render
from posh_reward.provenance import ORIGIN_COLUMN, Origins
from posh_reward.settings import shorten, suggest_file
from posh_reward.study.packets.draw import (
    Design,
    add_known_tasks,
    draw_tasks,
    find_identical_pairs,
)
from posh_reward.study.packets.rater_answers import label_studio_config, tasks_json
from posh_reward.study.packets.study_records import (
    ANSWERS_FORMAT,
    BETTER,
    FORMS,
    MANIFEST_FORMAT,
    WORSE,
    ItemTexts,
    KnownItem,
    PacketKey,
    Purpose,
    RaterTask,
    RaterTexts,
    StudyItem,
    describe_first_problem,
    shipped_texts,
    word_spans,
)
from posh_reward.tables.dataset_images import DatasetImages, parse_row_number
from posh_reward.tables.engine import Columns, find_image, read_items
from posh_reward.tables.tables import Row, replace_surrogates
from posh_reward.text_values import read_text
from posh_reward.types import Failure, is_missing

MIN_SIMILARITY = 0.85  # 0 to 1, of a file's name: numbered photographs all resemble each other
MAX_IMAGE_SIDE_PIXELS = 1024  # the longer side: 100 to 250 kB an image


class Album(LocalImages):
    """The images of items, as raters see them."""

    def __init__(
        self,
        folders: Sequence[Path],
        dataset: DatasetImages | None = None,
        side: int = MAX_IMAGE_SIDE_PIXELS,
    ) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise MissingDependencyError("images need Pillow: pip install pillow") from None
        super().__init__(folders, side, dataset)

    def load_uris(self, items: Sequence[StudyItem]) -> dict[str, str]:
        """By id, each item's image; ``InputError`` says which cannot be read."""
        uris, unread = {}, []
        for item in items:
            source = self.source(item.image, item.id, item.reference)
            copy = None if source is None else self.copy_as_jpeg(source)
            if copy is None:
                unread.append(self._describe_unread(item))
            else:
                uris[item.id] = image_uri(copy)
        if unread:
            raise InputError(
                f"{len(unread)} of {len(unread) + len(uris)} images cannot be found or read: "
                f"{list_first(unread)}. Correct their names, name their folder (--images)"
                f"{self._suggest_dataset(items)} or leave images out (--no-images)"
            )
        return uris

    def _describe_unread(self, item: StudyItem) -> str:
        where = item.place or repr(item.id)
        if is_missing(item.image) or not str(item.image).strip():
            return f"no name, as the cell is empty ({where})"
        paths = [folder / str(item.image) for folder in self._folders]
        hints = [suggest_file(path, MIN_SIMILARITY) for path in paths]
        name = cut_middle(repr(item.image), MAX_PATH_CHARACTERS)
        return f"{name}{next(filter(None, hints), '')} ({where})"

    def _suggest_dataset(self, items: Sequence[StudyItem]) -> str:
        if any(parse_row_number(item.image) is not None for item in items):
            return " or the dataset whose rows they number (--dataset, --split)"
        return ""


@dataclass(frozen=True, slots=True)
class StudyItems:
    """Items to compare."""

    models: tuple[str, ...]
    items: tuple[StudyItem, ...]
    incomplete: tuple[str, ...]  # ids without a generation of every model
    origins: Origins = field(default_factory=Origins)
    known: tuple[KnownItem, ...] = ()  # for practice and attention


MAX_LISTED_PROBLEMS = 3
MAX_PATH_CHARACTERS = 80  # of a path in a message, which loses its middle
MIN_NAME_LETTERS = 3  # of a model's name that is looked for in its texts
PLACE_COLUMN = "\0place"  # no file has a column of this name


def list_first(texts: Sequence[str], most: int = MAX_LISTED_PROBLEMS) -> str:
    """The first of some texts, and how many more there are."""
    listed = ", ".join(texts[:most])
    return f"{listed} and {len(texts) - most} more" if len(texts) > most else listed


def number_rows(rows: Iterable[Row], name: str, first: int) -> Iterator[Row]:
    """Rows with the place where the organiser finds each in the file."""
    word = "line" if first > 1 else "row"  # spreadsheets count the header, too
    for number, row in enumerate(rows, start=first):
        yield {**row, PLACE_COLUMN: f"{name}, {word} {number}"}


def find_named_models(items: Iterable[StudyItem]) -> list[str]:
    """Find texts that contain the name of the model that wrote them, which would tell raters."""
    found = []
    for item in items:
        for model, text in item.texts.items():
            is_long = sum(map(str.isalpha, model)) >= MIN_NAME_LETTERS
            if is_long and re.search(rf"(?<!\w){re.escape(model)}(?!\w)", text, re.IGNORECASE):
                found.append(f"{model!r} ({item.place or repr(item.id)})")
    return found


def split_by_model(rows: Iterable[Row], models: Sequence[str], columns: Columns) -> Iterator[Row]:
    """Rows with a column for each model -> a row for each text, named after its column.

    Empty cells have no row. Without a column of ids the image's name is the id.
    """
    image, id_column = columns.image or "image", columns.id or "id"
    for number, row in enumerate(rows, start=1):
        shared = {name: cell for name, cell in row.items() if name not in models}
        if id_column not in row:
            shared[id_column] = row.get(image) or number
        for model in models:
            text = row.get(model)
            if not is_missing(text) and str(text).strip():
                yield {**shared, "generation": text, columns.model or "model": model}


def place_images(rows: Iterable[Row], column: str, folder: Path) -> Iterator[Row]:
    """Rows whose image is a name in a folder, with or without its ending -> with its path."""
    for row in rows:
        name = row.get(column)
        if is_missing(name) or not str(name).strip():
            yield row
        else:
            path = find_image(folder, str(name)) or str(folder / str(name))
            yield {**row, column: path}


def read_study_items(
    rows: Iterable[Row], columns: Columns, models: Sequence[str] = ()
) -> StudyItems:
    """Read what each model wrote; the models' order is as given, then as in the rows."""
    items: dict[str, StudyItem] = {}
    order = dict.fromkeys(models)
    origins = Origins()
    for number, row in enumerate(rows, start=1):
        try:
            item, model = _read_item(row, columns)
            _add_generation(items, item, model)
            origins.add({"model": model, ORIGIN_COLUMN: row.get(ORIGIN_COLUMN)})
        except InputError as error:
            name = row.get(columns.id or "id")
            which = row.get(PLACE_COLUMN, f"row {number}")
            if not is_missing(name):
                which += f", id {name!r}"
            raise InputError(f"{which}: {error}") from None
        order[model] = None
    if len(order) < 2:
        there = f"only {next(iter(order))!r}" if order else "none"
        raise InputError(f"two models are needed to compare, and there is {there}")
    # A preference needs both models on one item; otherwise images would be compared, not models.
    complete: list[StudyItem] = []
    incomplete: list[str] = []
    for item in items.values():
        if len(item.texts) < len(order):
            incomplete.append(item.id)
        else:
            complete.append(replace(item, texts={model: item.texts[model] for model in order}))
    if not complete:
        raise InputError("no id has a generation of every model: do the ids of the models agree?")
    return StudyItems(tuple(order), tuple(complete), tuple(incomplete), origins)


def read_known_items(
    rows: Iterable[Row],
    purpose: Purpose,
    *,
    reference: str | None = "reference",
    image: str = "image",
) -> tuple[KnownItem, ...]:
    """Read items with a right answer: ``better``, ``worse``, a reference, an image, ``why``."""
    known = []
    for number, row in enumerate(rows, start=1):
        try:
            texts = {
                name: _require_text(read_text(row.get(name)), name) for name in (BETTER, WORSE)
            }
            if _join_blanks(texts[BETTER]) == _join_blanks(texts[WORSE]):
                raise InputError(f"{BETTER!r} and {WORSE!r} are the same text")
            correct = ""
            if reference:
                correct = _require_text(read_reference(row.get(reference)), reference)
            why = "" if is_missing(row.get("why")) else str(row["why"])
        except InputError as error:
            where = row.get(PLACE_COLUMN, f"row {number}")
            raise InputError(f"{purpose}, {where}: {error}") from None
        place = row.get(PLACE_COLUMN, "")
        item = StudyItem(f"{purpose} {number}", correct, texts, row.get(image), place)
        known.append(KnownItem(item, purpose, replace_surrogates(why.strip())))
    if not known:
        raise InputError(f"there are no items for {purpose}")
    return tuple(known)


def _read_item(row: Row, columns: Columns) -> tuple[StudyItem, str]:
    [item] = read_items([row], columns)
    if item.model is None:
        raise InputError(f"no model in the column {columns.model or 'model'!r}: fill it in")
    model = replace_surrogates(item.model)
    text = _require_text(read_text(item.texts["generation"]), columns.texts["generation"])
    reference = ""
    if column := columns.texts["reference"]:
        reference = _require_text(read_reference(item.texts["reference"]), column)
    place = row.get(PLACE_COLUMN, "")
    name = replace_surrogates(str(item.id))
    return StudyItem(name, reference, {model: text}, item.image, place), model


def _join_blanks(text: str) -> str:
    return " ".join(text.split())


def _require_text(text: str | Failure, column: str | None) -> str:
    if isinstance(text, Failure) or not text.strip():
        why = text.about("it") if isinstance(text, Failure) else "it is blank"
        raise InputError(f"no text in the column {column!r} ({why}): raters need one")
    return replace_surrogates(text.strip()).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _add_generation(items: dict[str, StudyItem], item: StudyItem, model: str) -> None:
    earlier = items.setdefault(item.id, replace(item, texts={}))
    if model in earlier.texts:
        first = f", first in {earlier.place}" if earlier.place else ""
        raise InputError(f"the id {item.id!r} occurs twice for the model {model!r}{first}")
    for name in ("reference", "image"):
        before, now = getattr(earlier, name), getattr(item, name)
        if before != now:
            raise InputError(
                f"the id {item.id!r} has the {name} {shorten(now)}, and in an earlier row "
                f"{shorten(before)}: all generations of an id need the same one"
            )
    earlier.texts[model] = item.texts[model]


def rater_page(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> str:
    """One HTML document for one rater; nothing in it reveals which model wrote a text.

    ``images`` are data URIs by item id; empty in a study without images.
    """
    rater, texts = key.raters[name], key.texts
    steps = texts.instructions(rater.form, images=key.images, reference=key.reference)
    return render(
        "rater.html",
        "posh_reward.study.packets",
        title=texts.heading[rater.form],
        texts=texts,
        steps=steps,
        marks=rater.form == "granular",
        background=list(texts.background),
        packet=_page_contents(name, key, items, images),
    )


def make_servable(page: str) -> str:
    """A page that sends its answers to the address it came from (``packets serve``)."""
    for before, after in (
        ("<html ", "<html data-served "),
        ("default-src 'none';", "default-src 'none'; connect-src 'self';"),
    ):
        if before not in page:
            raise InputError("the packet was made by an older version: make it again")
        page = page.replace(before, after, 1)
    return page


def _page_contents(
    name: str, key: PacketKey, items: Mapping[str, StudyItem], images: Mapping[str, str]
) -> Row:
    rater, texts = key.raters[name], key.texts
    places: dict[str, int] = {}  # by item, of its image
    tasks = []
    for task in rater.tasks:
        if images:
            places.setdefault(task.item, len(places))
        row = _task_contents(task, items[task.item], places.get(task.item))
        if task.purpose == "practice":
            better = task.models.index(BETTER) + 1
            row["practice"] = {"better": better, "why": key.find_item(task).why}
        tasks.append(row)
    questions = []
    for axis, question in texts.questions.items():
        text = texts.question(axis, reference=key.reference)
        questions.append([axis, question.title, text])
    sides = {}
    for side in key.sides:
        marking = texts.marking[side]
        sides[side] = [marking.task, marking.name, marking.nothing]
    labels = {"reference": texts.reference * key.reference, "generation": texts.generation}
    return {
        "format": ANSWERS_FORMAT,
        "packet": key.packet,
        "rater": name,
        "token": rater.token,
        "form": rater.form,
        "words": {**texts.page, **labels},
        "questions": questions,
        "choices": [[value, label] for label, value in texts.values.items()],
        "sides": sides,
        "about": [bool(texts.consent), len(texts.background)],
        "tasks": tasks,
        "images": [images[item] for item in places],
    }


def _task_contents(task: RaterTask, item: StudyItem, image: int | None) -> Row:
    texts = [item.texts[model] for model in task.models]
    row: Row = {"id": task.id, "image": image, "reference": item.reference, "texts": texts}
    if len(texts) == 1:
        row["words"] = {"mistakes": word_spans(texts[0]), "omissions": word_spans(item.reference)}
    return row


GUIDE_TEMPLATE = """\
{title}
{rule}

For whoever hands out the tasks. Each rater gets one file and nothing else.

{files}
A page (.html) opens by double click in any browser, without a network. The rater answers, saves a
file (answers-....json) and sends it back. Or import a rater's tasks into a Label Studio project of
their own: labelling setup from the .xml, then the .json; export as JSON.

What raters read:

{steps}
The key, which says who wrote which description, is not in this folder. Do not give it to raters.
"""
# Errors of renaming onto what exists.
ALREADY_EXISTS_ERRORS = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
LABEL_STUDIO_FILES = " or label-studio/{name}.json with label-studio/{form}.xml"


@dataclass(frozen=True, slots=True)
class Packet:
    """A folder to hand over, and its key."""

    key: PacketKey
    files: dict[str, bytes]  # to hand over, by path in the folder

    @property
    def key_file(self) -> bytes:
        return encode_json(asdict(self.key), indent=1)


def make_packet(
    items: StudyItems,
    design: Design,
    album: Album | None,
    inputs: Mapping[str, str],
    *,
    texts: RaterTexts | None = None,
) -> Packet:
    """Draw the tasks and write every form. Equal arguments make equal bytes."""
    by_id = {item.id: item for item in items.items}
    for each in items.known:
        if each.item.id in by_id:
            raise InputError(f"the id {each.item.id!r} is taken: rename this item of the study")
        by_id[each.item.id] = each.item
    reference = any(item.reference for item in items.items)
    if not reference and album is None:
        raise InputError("raters need an image or a correct description to judge by")
    raters = add_known_tasks(draw_tasks(items.items, design), items.known, design)
    identical = find_identical_pairs(items.items) if design.coarse else ()
    texts = texts or shipped_texts()
    content = repr((design, items, sorted(inputs.items()), texts)).encode()
    key = PacketKey(
        packet=sha256(content).hexdigest()[:10],
        seed=design.seed,
        models=items.models,
        images=album is not None,
        items={item.id: ItemTexts(item.reference, item.texts, item.image) for item in items.items},
        raters=raters,
        identical=identical,
        incomplete=items.incomplete,
        inputs=dict(inputs),
        origins={name: str(each) for name, each in items.origins.by_model.items() if each},
        reference=reference,
        known={
            each.item.id: ItemTexts(each.item.reference, each.item.texts, each.item.image, each.why)
            for each in items.known
        },
        texts=texts,
    )
    files = _render_forms(key, by_id, album)
    files["READ-ME-FIRST.txt"] = _render_guide(key).encode("utf-8")
    packet = Packet(key, files)
    files["manifest.json"] = encode_json(_build_manifest(packet), indent=1)
    return packet


def _render_forms(
    key: PacketKey, by_id: Mapping[str, StudyItem], album: Album | None
) -> dict[str, bytes]:
    images: dict[str, str] = {}
    if album is not None:
        tasks = chain.from_iterable(rater.tasks for rater in key.raters.values())
        shown = {task.item for task in tasks}
        images = album.load_uris([item for name, item in by_id.items() if name in shown])
    files: dict[str, bytes] = {}
    for name, rater in key.raters.items():
        files[f"{name}.html"] = rater_page(name, key, by_id, images).encode("utf-8")
        to_import = tasks_json(rater, by_id, images)
        files[f"label-studio/{name}.json"] = encode_json(to_import)
        layout = label_studio_config(rater.form, key)
        files[f"label-studio/{rater.form}.xml"] = layout.encode("utf-8")
    return files


def encode_json(content: object, indent: int | None = None) -> bytes:
    """JSON in UTF-8; bytes of a file name that are not UTF-8 become question marks."""
    return json.dumps(content, ensure_ascii=False, indent=indent).encode("utf-8", "replace") + b"\n"


def _render_guide(key: PacketKey) -> str:
    title = "A comparison of image descriptions by people"
    files, steps = "", ""
    for form in FORMS:
        names = [name for name, rater in key.raters.items() if rater.form == form]
        if not names:
            continue
        heading = key.texts.heading[form]
        span = names[0]
        if len(names) > 1:
            span += f" to {names[-1]}"
        files += f"  {span}: {heading}\n"
        for name in names:
            files += f"    {name}.html{LABEL_STUDIO_FILES.format(name=name, form=form)}: "
            files += f"{len(key.raters[name].numbered)} tasks\n"
        instructions = key.texts.instructions(form, images=key.images, reference=key.reference)
        steps += f"{heading}\n"
        for number, step in enumerate(instructions, start=1):
            steps += f"  {number}. {step}\n"
        steps += "\n"
    rule = "=" * len(title)
    return GUIDE_TEMPLATE.format(title=title, rule=rule, files=files, steps=steps)


def _build_manifest(packet: Packet) -> dict[str, object]:
    # Seal with a hash of the whole key: raters could guess the seed or the models alone.
    return {
        "format": MANIFEST_FORMAT,
        "packet": packet.key.packet,
        "made_with": f"posh-reward {package_version()}",
        "key_sha256": sha256_hex(packet.key_file),
        "files": {name: sha256_hex(data) for name, data in sorted(packet.files.items())},
    }


def sha256_hex(data: bytes) -> str:
    return sha256(data).hexdigest()


def write_packet(packet: Packet, folder: Path, key: Path) -> None:
    """Write the folder and, outside it, the key: both or neither."""
    if folder.resolve() in (key.resolve(), *key.resolve().parents):
        raise InputError(f"the key {str(key)!r} would be handed over with {str(folder)!r}")
    for path in (folder, key):
        if path.exists():
            raise _already_exists(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    key.parent.mkdir(parents=True, exist_ok=True)
    # The folder gets its name once complete, so a kill leaves none to hand over by mistake. Of two
    # processes writing to one place, the key's file refuses one before it can replace the other's
    # key, without which the other's folder would be worthless.
    with TemporaryDirectory(prefix="packet-", dir=folder.parent) as temporary:
        part = Path(temporary) / folder.name
        for name, data in packet.files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            # Creates or fails; checking before opening would leave a gap for another process.
            descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise _already_exists(key) from None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(packet.key_file)
            part.rename(folder)
        except BaseException as error:
            key.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in ALREADY_EXISTS_ERRORS:
                raise _already_exists(folder) from None
            raise


def _already_exists(path: Path) -> InputError:
    return InputError(f"{str(path)!r} already exists: choose another path, or delete it")


def read_key(path: Path, folder: Path | None = None) -> PacketKey:
    """Read a packet's key; with ``folder``, check that the folder was sealed with it."""
    try:
        data = path.read_bytes()
        key = TypeAdapter(PacketKey).validate_json(data)
    except OSError as error:
        raise InputError(f"cannot read the key {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        problem = describe_first_problem(error)
        raise InputError(f"{str(path)!r} is not a key of a packet ({problem})") from None
    if folder is None:
        return key
    try:
        seal = json.loads((folder / "manifest.json").read_bytes())["key_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{str(folder)!r} is not a packet: no manifest.json with a seal") from None
    if seal != sha256_hex(data):
        raise InputError(
            f"{str(folder)!r} was sealed with another key: this one was changed, or belongs to "
            "another packet"
        )
    return key
