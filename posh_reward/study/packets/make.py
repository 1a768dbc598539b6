"""Generations -> a folder to hand over, and the key, which stays."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from posh_reward.errors import InputError
from posh_reward.metrics.metric import package_version
from posh_reward.study.packets import label_studio, potato
from posh_reward.study.packets.draw import Design, draw, identical_pairs
from posh_reward.study.packets.later_packets import check_raters
from posh_reward.study.packets.rater_page import rater_page
from posh_reward.study.packets.rater_texts import (
    FORMS,
    RANKED,
    RaterTexts,
    first_problem,
    shipped_texts,
)
from posh_reward.study.packets.study_images import Album
from posh_reward.study.packets.study_items import StudyItems
from posh_reward.study.packets.study_records import MANIFEST_FORMAT, ItemTexts, PacketKey, StudyItem

GUIDE = """\
{title}
{rule}

For whoever hands out the tasks. Each rater gets one file and nothing else.

{files}
A page (.html) is opened by a double click, in any browser, without a network. The rater
answers, saves a file (answers-....json) and sends it back. Or import the tasks of a rater into a
Label Studio project of its own: labelling setup from the .xml, then the .json; export as JSON.
{potato}
What raters read:

{steps}
The key that says which description is whose is not in this folder. Do not give it to raters.
{note}"""
LABEL_STUDIO = " or label-studio/{name}.json with label-studio/{form}.xml"
POTATO = """\
Or start a rater's project in Potato: potato start potato/rater-01/config.yaml -p 8000; what comes
back is potato/rater-01/annotation_output/NAME/user_state.json.
"""
NOTE = {
    True: "Raters see marks that a program suggested. That pulls their answers towards its own: do "
    "not\nuse these answers to say how good that program is.\n",
    False: "Raters see no marks by any program.\n",
}


@dataclass(frozen=True, slots=True)
class Packet:
    """A folder to hand over, and its key."""

    key: PacketKey
    files: dict[str, bytes]  # to hand over, by path in the folder

    @property
    def key_file(self) -> bytes:
        """The key as a file."""
        return as_json(asdict(self.key), indent=1)


def make_packet(
    items: StudyItems,
    design: Design,
    album: Album | None,
    inputs: Mapping[str, str],
    *,
    texts: RaterTexts | None = None,
    earlier: PacketKey | None = None,
    with_potato: bool = False,
) -> Packet:
    """Draw the tasks and write every form. Equal arguments make equal bytes.

    Args:
        items: what is compared.
        design: how, and the seed.
        album: finds the images; None for a study without them.
        inputs: SHA-256 of the input files, for the key.
        texts: that raters read; the English ones by default.
        earlier: key of the study so far, of which this is a further packet.
        with_potato: add a project for Potato for each rater.

    Raises:
        InputError: too few raters, an image is missing, or there is no such form of the study.
    """
    by_id = {item.id: item for item in items.items}
    suggested = any(item.suggested for item in items.items) and design.granular > 0
    reference = any(item.reference for item in items.items)
    if not reference and album is None:
        raise InputError("raters need an image or a correct description to judge by")
    if design.ranking and len(items.models) != RANKED:
        raise InputError(
            f"a ranking takes {RANKED} models, and there are {len(items.models)}: compare pairs"
        )
    if with_potato and suggested:
        raise InputError(
            "Potato's projects show no suggested marks: leave out --potato or --suggest"
        )
    raters = draw(items.items, design)
    if earlier is not None:
        check_raters(raters, earlier)
    texts = texts or shipped_texts()
    content = repr((design, items, sorted(inputs.items()), texts)).encode()
    key = PacketKey(
        packet=sha256(content).hexdigest()[:10],
        seed=design.seed,
        models=items.models,
        suggested=suggested,
        images=album is not None,
        items={item.id: ItemTexts(item.reference, item.texts) for item in items.items},
        raters=raters,
        identical=identical_pairs(items.items) if design.coarse or design.ranking else (),
        incomplete=items.incomplete,
        inputs=dict(inputs),
        reference=reference,
        texts=texts,
    )
    files = _forms(key, by_id, album, with_potato)
    files["READ-ME-FIRST.txt"] = _guide(key, with_potato).encode("utf-8")
    packet = Packet(key, files)
    files["manifest.json"] = as_json(_manifest(packet), indent=1)
    return packet


def _forms(
    key: PacketKey, by_id: Mapping[str, StudyItem], album: Album | None, with_potato: bool
) -> dict[str, bytes]:
    """Each rater's page, and the same tasks for Label Studio and Potato, by file name."""
    in_tasks = dict.fromkeys(task.item for rater in key.raters.values() for task in rater.tasks)
    images = {item: album.uri(by_id[item]) for item in in_tasks} if album else {}
    files: dict[str, bytes] = {}
    for name, rater in key.raters.items():
        files[f"{name}.html"] = rater_page(name, key, by_id, images).encode("utf-8")
        tasks = label_studio.tasks_json(rater, by_id, images)
        files[f"label-studio/{name}.json"] = as_json(tasks)
        config = label_studio.config(rater.form, key)
        files[f"label-studio/{rater.form}.xml"] = config.encode("utf-8")
        if with_potato:
            for path, data in potato.project(name, key, by_id, images).items():
                files[f"potato/{name}/{path}"] = data
    return files


def as_json(content: object, indent: int | None = None) -> bytes:
    """JSON in UTF-8; bytes of a file's name that are not UTF-8 become question marks."""
    return json.dumps(content, ensure_ascii=False, indent=indent).encode("utf-8", "replace") + b"\n"


def _guide(key: PacketKey, with_potato: bool) -> str:
    title = "A comparison of image descriptions by people"
    forms = {form: [n for n, r in key.raters.items() if r.form == form] for form in FORMS}
    files, steps = "", ""
    for form, names in forms.items():
        if not names:
            continue
        span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        files += f"  {span}: {key.texts.heading[form]}\n"
        files += "".join(
            f"    {name}.html{LABEL_STUDIO.format(name=name, form=form)}: "
            f"{len(key.raters[name].tasks)} tasks\n"
            for name in names
        )
        instructions = key.texts.instructions(
            form,
            images=key.images,
            suggested=key.suggested and form == "granular",
            reference=key.reference,
        )
        steps += f"{key.texts.heading[form]}\n"
        lines = (f"  {number}. {step}\n" for number, step in enumerate(instructions, 1))
        steps += "".join(lines) + "\n"
    return GUIDE.format(
        title=title,
        rule="=" * len(title),
        files=files,
        steps=steps,
        note=NOTE[key.suggested],
        potato=POTATO if with_potato else "",
    )


def _manifest(packet: Packet) -> dict[str, object]:
    # The seal is a hash of the whole key: of the seed or the models alone raters could guess it.
    return {
        "format": MANIFEST_FORMAT,
        "packet": packet.key.packet,
        "made_with": f"posh-reward {package_version()}",
        "suggested_marks": packet.key.suggested,
        "key_sha256": digest(packet.key_file),
        "files": {name: digest(data) for name, data in sorted(packet.files.items())},
    }


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


def write_packet(packet: Packet, folder: Path, key: Path) -> None:
    """Write the folder and, outside it, the key: both of this packet, or neither.

    Raises:
        InputError: either is there already, or the key would be inside the folder.
        OSError: they cannot be written.
    """
    if folder.resolve() in (key.resolve(), *key.resolve().parents):
        raise InputError(f"the key {str(key)!r} would be handed over with {str(folder)!r}")
    for path in (folder, key):
        if path.exists():
            raise _there_already(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    key.parent.mkdir(parents=True, exist_ok=True)
    # The folder gets its name when it is whole, so a kill leaves none that might be handed over;
    # of two processes that write to one place, one is refused before it can replace the other's
    # key, without which its folder would be worthless.
    with TemporaryDirectory(prefix="packet-", dir=folder.parent) as temporary:
        part = Path(temporary) / folder.name
        for name, data in packet.files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        with _claim(key, packet.key_file):
            _rename(part, folder)


@contextmanager
def _claim(path: Path, data: bytes) -> Iterator[None]:
    # "x" makes the file or fails: a check before opening would leave a gap for another process.
    try:
        file = path.open("xb")
    except FileExistsError:
        raise _there_already(path) from None
    try:
        with file:
            file.write(data)
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _rename(part: Path, folder: Path) -> None:
    try:
        part.rename(folder)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise _there_already(folder) from None
        raise


def _there_already(path: Path) -> InputError:
    return InputError(f"{str(path)!r} is already there: write elsewhere, or delete it")


def read_key(path: Path, folder: Path | None = None) -> PacketKey:
    """The key of a packet; a ``folder`` shows whether it was sealed with this key.

    Raises:
        InputError: it is not a key, or not the one of this folder.
    """
    try:
        data = path.read_bytes()
        key = TypeAdapter(PacketKey).validate_json(data)
    except OSError as error:
        raise InputError(f"cannot read the key {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        problem = first_problem(error)
        raise InputError(f"{str(path)!r} is not a key of a packet ({problem})") from None
    if folder is not None:
        _check_seal(digest(data), folder)
    return key


def _check_seal(key_digest: str, folder: Path) -> None:
    path = folder / "manifest.json"
    try:
        seal = json.loads(path.read_bytes())["key_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{str(folder)!r} is not a packet: no manifest.json with a seal") from None
    if seal != key_digest:
        raise InputError(
            f"the key is not the one that was sealed with {str(folder)!r}: it was changed, or is "
            "of another packet"
        )


def rater_load(key: PacketKey) -> Sequence[str]:
    """One line for each rater: name, number of tasks, what to do in them."""
    return [
        f"{name}: {len(rater.tasks)} tasks: {key.texts.heading[rater.form]}"
        for name, rater in key.raters.items()
    ]
