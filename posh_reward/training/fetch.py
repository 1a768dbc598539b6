"""Download weights, data, and spaCy's and Maverick's models ahead of a run.

Afterwards the run works with ``HF_HUB_OFFLINE=1``, on a node without network.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from posh_reward.datasets.load_dataset import check_dataset, check_name_of_hub, is_drawn
from posh_reward.errors import (
    ConfigError,
    MissingDependencyError,
    PoshError,
    install_command,
    on_one_line,
)
from posh_reward.graph.maverick import PAPER_WEIGHTS, default_env, locate_python, make_env
from posh_reward.models.hub import MODEL_FILES, find_missing_file
from posh_reward.posh.load_judge import ROLES, engine_settings, list_engines
from posh_reward.posh.load_metric import read_metric
from posh_reward.process.child import run_command
from posh_reward.process.progress import say_while_waiting
from posh_reward.process.python import python_module
from posh_reward.settings import read_settings

MODEL_EXTRAS = ("*.json", "*.txt", "*.jinja", "*.model")
MAVERICK_ENCODER = "microsoft/deberta-v3-large"
"""Encoder that Maverick loads from the hub, in addition to its own weights."""
ENCODER_FILES = ("config.json", "spm.model", "pytorch_model.bin")

ASSET_STATES = ("here", "missing", "fetching", "fetched")
"""Of an asset: ``missing`` only in a dry run; ``fetching`` comes before the last or a failure."""
NO_DOWNLOAD = "check the name, the network and, for a gated model, `hf auth login`"

Kind = Literal["model", "dataset", "spacy", "environment"]


@dataclass(frozen=True, slots=True)
class Asset:
    """A file or folder that a run loads and that may have to be downloaded."""

    role: str  # such as "policy" or "judge"
    kind: Kind
    name: str  # on the hub, of a spaCy package, or the folder of an environment
    revision: str | None = None
    files: tuple[str, ...] = MODEL_FILES  # patterns; each must match a file

    def __str__(self) -> str:
        at = f" at {self.revision}" if self.revision else ""
        return f"{self.role:<12} {self.name}{at}"


def list_assets(config: str, flags: Sequence[str] = ()) -> list[Asset]:
    """List what a run downloads: everything that is neither a local path nor drawn.

    ``config`` is a recipe's configuration, whose settings ``flags`` override, a metric's settings
    (or their shipped name), or a judge's.
    """
    settings = _read_settings(config, flags)
    if "name" in settings:
        return list(dict.fromkeys(_model_assets(engine_settings(settings, "judge"))))
    assets: list[Asset] = []
    metric, names = settings, (*ROLES, "parser", "coref")
    is_recipe = "model_name_or_path" in settings or "dataset_name" in settings
    if is_recipe:
        metric = read_metric(settings.get("metric"), **{name: settings.get(name) for name in names})
        assets += _hub_assets("policy", "model", settings.get("model_name_or_path"),
                              settings.get("model_revision"))  # fmt: skip
        assets += _hub_assets("dataset", "dataset", find_dataset(settings)[0])
    # SFT and distillation have no metric, so neither judge nor parser.
    if not is_recipe or {"metric", "num_generations", *names} & settings.keys():
        assets += _model_assets(list_engines(metric))
        assets += graph_assets(metric)
    return list(dict.fromkeys(assets))


def _read_settings(config: str, flags: Sequence[str] = ()) -> dict[str, Any]:
    """Read a file of settings, or a metric's shipped ones, overridden by ``flags``."""
    path = Path(config)
    settings = read_settings(path) if path.suffix else read_metric(config)
    if "like" in settings:
        from posh_reward.training.run_settings import read_config  # imports TRL

        settings = read_config(path)
    return settings | {
        name.removeprefix("--"): value
        for name, value in pairwise(flags)
        if name.startswith("--") and not value.startswith("--")
    }


def prepare_data(config: str, flags: Sequence[str] = ()) -> Iterator[str]:
    """Check the splits and columns of a run's dataset, and resize its images for its model.

    All ranks of the run then read the resized images. Yields a line for each split.
    """
    settings = _read_settings(config, flags)
    name, splits, column = find_dataset(settings)
    if name is None or is_drawn(name):
        return
    from posh_reward.training.processors import load_processor, read_size_limits, training_images

    model, cap = settings.get("model_name_or_path"), settings.get("max_pixels")
    if cap is not None:
        cap = int(cap)  # a flag's is a text
    processor, sizes = None, ""
    if model:
        processor = load_processor(model, settings.get("model_revision") or "main", cap)
    if processor and read_size_limits(processor):
        sizes = f", as {model} takes them"
    else:
        processor = None  # the images stay as they are
    for split in splits:
        images = training_images(name, split, column, processor)
        yield f"{name}, {split}: {len(images)} images{sizes}"


def check_data(config: str, flags: Sequence[str] = ()) -> None:
    """Check the splits and columns of a run's dataset, if it is a local file or folder."""
    name, splits, column = find_dataset(_read_settings(config, flags))
    if name is not None and Path(name).exists():
        check_dataset(name, splits, column)


def find_dataset(settings: Mapping[str, Any]) -> tuple[str | None, list[str], str]:
    """Return the dataset of images of a recipe's settings, its splits, and its reference column."""
    name = settings.get("dataset_name")
    if "max_prompt_tokens" in settings:  # distillation, which reads a local question set
        name = None
    splits = [settings.get("dataset_train_split", "train")]
    if settings.get("eval_strategy", "no") not in ("no", False):
        splits.append(settings.get("dataset_test_split", "validation"))
    return name, splits, settings.get("reference_column", "reference")


def is_here(asset: Asset) -> bool:
    """Return True if an asset is complete in this machine's caches; uses no network."""
    if asset.kind == "spacy":
        from posh_reward.graph.parse import is_pipeline

        return is_pipeline(asset.name)
    if asset.kind == "environment":
        return locate_python(Path(asset.name)).exists()
    if asset.kind == "dataset":
        from datasets import config
        from datasets.naming import camelcase_to_snakecase

        # Prepared by ``load_dataset``: Owner___data_name/CONFIG/VERSION/HASH/dataset_info.json
        *owner, name = asset.name.split("/")
        folder = Path(config.HF_DATASETS_CACHE, "___".join([*owner, camelcase_to_snakecase(name)]))
        return any(folder.rglob("dataset_info.json"))
    return local_folder(asset) is not None


def local_folder(asset: Asset) -> Path | None:
    """Return a model's folder in the hub's cache, if it is complete; uses no network."""
    try:
        folder = Path(_hub_snapshot(asset, local_files_only=True))
    except (OSError, ValueError):  # LocalEntryNotFoundError, or a name that no repository can have
        return None
    if find_missing_file(folder, asset.files) is not None:
        return None
    return folder


def fetch_asset(asset: Asset) -> None:
    """Download an asset, or the missing part of it."""
    try:
        if asset.kind == "model":
            _hub_snapshot(asset, local_files_only=False)
        elif asset.kind == "dataset":
            from datasets import load_dataset

            load_dataset(asset.name)  # also prepares it: offline, only a prepared one is found
        elif asset.kind == "spacy":
            from posh_reward.graph.parse import require_pipeline_name

            require_pipeline_name(asset.name)
            # spaCy chooses the package for its own version, and runs `python -m pip`, which would
            # import from the working folder.
            command = python_module("spacy", "download", asset.name)
            done = run_command(command, stdout=sys.stderr, stderr=subprocess.PIPE, cwd=sys.prefix)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
        else:
            make_env(Path(asset.name))
    except Exception as error:  # the hub's client, pip and datasets raise many kinds
        reason = on_one_line((str(error).strip() or type(error).__name__).splitlines()[0])
        raise ConfigError(f"{asset.name} cannot be fetched: {reason}; {NO_DOWNLOAD}") from error
    if asset.kind == "model" and not is_here(asset):
        raise ConfigError(
            f"{asset.name} has no {' or no '.join(asset.files)} on the hub, so it cannot be loaded "
            "here: name a model with weights in safetensors"
        )


def offline_reason() -> str | None:
    """Return the reason why this environment forbids downloads, if it does."""
    _require_hub()
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set: unset it to fetch"
    return None


def _require_hub() -> None:
    if find_spec("huggingface_hub") is None:
        raise MissingDependencyError(f"fetching needs huggingface_hub: {install_command('train')}")


def _hub_snapshot(asset: Asset, *, local_files_only: bool) -> str:
    _require_hub()
    from huggingface_hub import snapshot_download

    return snapshot_download(
        asset.name,
        revision=asset.revision,
        allow_patterns=[*asset.files, *MODEL_EXTRAS],  # no code, no second format of the weights
        local_files_only=local_files_only,
    )


def _hub_assets(role: str, kind: Kind, name: object, revision: object = None) -> Iterator[Asset]:
    if not isinstance(name, str) or is_drawn(name) or Path(name).exists():
        return
    check_name_of_hub(name)
    yield Asset(role, kind, name, str(revision) if revision else None)


def graph_assets(metric: Mapping[str, Any]) -> Iterator[Asset]:
    """Yield the downloads of a metric's parser and coreference."""
    parser = str(metric.get("parser", "embedded"))
    if parser != "embedded" and not Path(parser).exists():
        yield Asset("parser", "spacy", parser)
    if metric.get("coref") == "maverick":
        yield Asset("coreference", "environment", str(default_env()))
        yield Asset("coreference", "model", PAPER_WEIGHTS, files=("weights.ckpt",))
        yield Asset("coreference", "model", MAVERICK_ENCODER, files=ENCODER_FILES)


def _model_assets(engines: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Asset]:
    """Yield the weights of a metric's models; a server loads its own."""
    for user, options in engines:
        is_function = options["name"] == "nli" and ":" in options["model"]
        if options["name"] in ("transformers", "vllm", "nli") and not is_function:
            yield from _hub_assets(user, "model", options.get("model"), options.get("revision"))


def fetch_all(assets: list[Asset], *, dry_run: bool) -> Iterator[tuple[Asset, str]]:
    """Yield each asset with one of ``ASSET_STATES``, or the reason why it could not be fetched."""
    offline = None if dry_run else offline_reason()
    for asset in assets:
        if is_here(asset):
            yield asset, "here"
        elif dry_run:
            yield asset, "missing"
        elif offline is not None:
            yield asset, offline
        else:
            yield asset, "fetching"
            try:
                with say_while_waiting(f"still fetching {asset.name}"):
                    fetch_asset(asset)
            except PoshError as error:
                yield asset, str(error)
            else:
                yield asset, "fetched"
