"""A packet -> projects in Label Studio, one per rater."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from posh_reward.errors import InputError, MissingDependencyError, install_command
from posh_reward.study.packets.study_records import PacketKey

KEY_VARIABLE = "LABEL_STUDIO_API_KEY"
TIMEOUT_SECONDS = 300.0  # of a request; a rater's tasks are sent at once, with their images


def push_packet(key: PacketKey, packet: Path, url: str) -> Iterator[tuple[str, str]]:
    """Create a project for each rater; yield the rater and the project's address once it is there.

    The access token is in the environment, as ``LABEL_STUDIO_API_KEY``.

    Raises:
        InputError: the server refuses, is not there, or has one of the projects already.
        MissingDependencyError: Label Studio's client is not installed.
    """
    token = os.environ.get(KEY_VARIABLE)
    if not token:
        raise InputError(
            f"{KEY_VARIABLE} is not set: set it to the access token of your account in Label Studio"
        )
    try:
        import httpx
        from label_studio_sdk import LabelStudio
        from label_studio_sdk.core.api_error import ApiError
    except ImportError:
        why = f"`packets push` needs Label Studio's client: {install_command('labelstudio')}"
        raise MissingDependencyError(why) from None
    address = url.rstrip("/")
    try:
        with httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False) as connection:
            client = LabelStudio(base_url=address, api_key=token, httpx_client=connection)
            _check_absent(client, key)
            for rater in key.raters:
                number = _create_project(client, key, packet, rater)
                yield rater, f"{address}/projects/{number}"
    except ApiError as error:  # its text has all headers, so it is not shown
        raise InputError(
            f"Label Studio at {address} refused (status {error.status_code}): "
            f"{_find_detail(error.body)}"
        ) from None
    except httpx.HTTPError as error:
        raise InputError(f"cannot reach Label Studio at {address}: {error}") from None


def _name_project(key: PacketKey, rater: str) -> str:
    return f"{rater} of packet {key.packet}"


def _check_absent(client: Any, key: PacketKey) -> None:
    """Refuse to create a project twice: a second rater might answer the same tasks."""
    titles = {project.title for project in client.projects.list()}
    for rater in key.raters:
        if (title := _name_project(key, rater)) in titles:
            raise InputError(f"Label Studio already has the project {title!r}: delete it first")


def _create_project(client: Any, key: PacketKey, packet: Path, rater: str) -> int:
    form, folder = key.raters[rater].form, packet / "label-studio"
    try:
        layout = (folder / f"{form}.xml").read_text(encoding="utf-8")
        tasks = json.loads((folder / f"{rater}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the tasks of {rater} in {str(folder)!r}: {error}") from None
    steps = key.texts.instructions(form, images=key.images, reference=key.reference)
    project = client.projects.create(
        title=_name_project(key, rater),
        label_config=layout,
        expert_instruction="".join(f"<p>{escape(step)}</p>" for step in steps),
        show_instruction=True,
        sampling="Sequential sampling",
        maximum_annotations=1,
    )
    client.projects.import_tasks(id=project.id, request=tasks)
    return int(project.id)


def _find_detail(body: object) -> str:
    detail = body.get("detail") if isinstance(body, dict) else None
    return str(detail or body)[:200]
