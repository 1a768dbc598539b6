"""Make a local copy of DOCENT, or a similar dataset, for ``--dataset_name``.

    python data/docent.py copy amitha/docent --output data/docent
    python data/docent.py build published_images.csv --objects objects.csv --output data/gallery

``copy`` takes the hub's dataset, or a local copy of it: it checks columns and images, and resizes
images once, so that no run decodes twelve megapixels again.

``build`` is for those who cannot use the hub's copy: the same museum publishes descriptions and
addresses of images (github.com/NationalGalleryOfArt/opendata, data/). It downloads missing images,
a few at a time; an interrupted download resumes. The result approximates DOCENT: it has neither the
same works nor the same splits, so figures on it are not comparable with the paper's.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from posh_reward.datasets.copies import MAX_PIXELS, build_dataset, copy_dataset, save, summary
from posh_reward.datasets.national_gallery import SPLITS, select
from posh_reward.models.prompt_images import SizeLimits, size_for_model
from posh_reward.training.launch import run
from posh_reward.training.processors import MIN_PIXELS

PATCH = 28  # pixels of each side of an image token


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    flags = _parser().parse_args(argv)
    dataset = flags.make(flags)
    save(dataset, flags.output)
    print(f"{summary(dataset)}\nin {flags.output}")


def _copy(flags: argparse.Namespace) -> object:
    # The sizes of Qwen2.5-VL under the recipes' max_pixels, so that a run need not resize again.
    sizes = SizeLimits(PATCH, MIN_PIXELS, flags.max_pixels)
    return copy_dataset(
        flags.name,
        splits=flags.splits,
        reference_column=flags.reference,
        new_size=partial(size_for_model, **sizes._asdict()),
        skip_broken=flags.skip_broken,
    )


def _build(flags: argparse.Namespace) -> object:
    selection = select(
        flags.table,
        flags.objects,
        classifications=flags.classification,
        min_words=flags.min_words,
    )
    print(f"{len(selection.works)} works chosen")
    for why, rows in selection.left_out.most_common():
        print(f"{rows} rows left out: {why}")
    images = flags.images or flags.output.with_name(f"{flags.output.name}_pictures")
    works = selection.works[: flags.limit]
    return build_dataset(works, images, max_pixels=flags.max_pixels, skip_broken=flags.skip_broken)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    copy = commands.add_parser("copy", help="DOCENT from the hub, or from a local copy")
    copy.set_defaults(make=_copy)
    copy.add_argument("name", help="amitha/docent, or a path")
    copy.add_argument("--splits", nargs="+", default=list(SPLITS))
    copy.add_argument("--reference", default="reference", help="of the dataset")
    build = commands.add_parser("build", help="from the National Gallery of Art's open data")
    build.set_defaults(make=_build)
    build.add_argument("table", type=Path, help="published_images.csv")
    build.add_argument("--objects", type=Path, help="objects.csv, for titles and classifications")
    build.add_argument(
        "--classification", action="append", default=[], help="only these, such as Painting"
    )
    build.add_argument("--min-words", type=int, default=60, help="of a description")
    build.add_argument("--images", type=Path, help="folder of images; default: OUTPUT_pictures")
    build.add_argument("--limit", type=int, help="only so many works")
    for command in (copy, build):
        command.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
        command.add_argument("--max-pixels", type=int, default=MAX_PIXELS)
        command.add_argument(
            "--skip-broken", action="store_true", help="leave out images that cannot be read"
        )
    return parser


if __name__ == "__main__":
    run(main)
