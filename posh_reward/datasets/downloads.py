"""Downloads of images: checked, shrunk once, and never fetched twice.

What a server sends is untrusted: size and time are bounded before anything is decoded, and only an
image's pixels are kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.datasets.image_files import as_jpeg, decoding_error, fit_size, open_image
from posh_reward.errors import InputError, MissingDependencyError, install
from posh_reward.process.progress import progress_bar

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 64 * 2**20
MOST_SECONDS = 120.0  # for one image
TRIES = 3
GIVE_UP_AFTER = 20  # failures before the first success: the server or the network is down
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def fetch_images(
    addresses: Mapping[Path, str],
    max_pixels: int,
    *,
    workers: int = 4,
    wait: float = 1.0,
    quiet: bool = False,
) -> dict[Path, str]:
    """Fetch each image into its file, unless the file exists.

    Args:
        addresses: address of each file's image.
        max_pixels: larger images are shrunk.
        workers: simultaneous downloads, few, to spare a museum's server.
        wait: seconds before the second try of an image; twice as many before the third.
        quiet: show no progress bar.

    Returns:
        The files that could not be fetched, in the order of ``addresses``, each with the reason.

    Raises:
        InputError: the first ``GIVE_UP_AFTER`` images all failed.
        MissingDependencyError: httpx is not installed.
    """
    missing = {file: address for file, address in addresses.items() if not file.exists()}
    if not missing:
        return {}
    failures: dict[Path, str] = {}
    with (
        _client() as client,
        ThreadPoolExecutor(workers) as pool,
        progress_bar("images", len(missing), "image", quiet) as bar,
    ):
        pending = {
            pool.submit(_fetch, client, address, file, max_pixels, wait): file
            for file, address in missing.items()
        }
        try:
            for count, future in enumerate(as_completed(pending), start=1):
                bar.update()
                why = future.result()
                if why is not None:
                    failures[pending[future]] = why
                if count == len(failures) == GIVE_UP_AFTER:
                    raise InputError(
                        f"the first {count} images could not be fetched, the last because {why}; "
                        "check the network and the addresses, then run it again"
                    )
        except BaseException:  # also Ctrl-C: otherwise the pool would first fetch all the others
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {file: failures[file] for file in missing if file in failures}


def _client() -> httpx.Client:
    """Return a client that follows a few redirects, to encrypted addresses only."""
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError(f"fetching images needs httpx: {install('server')}") from None
    return httpx.Client(
        headers={"Accept-Encoding": "identity", "User-Agent": "posh_reward (research dataset)"},
        timeout=30,
        follow_redirects=True,
        max_redirects=3,
        event_hooks={"request": [_check_encrypted]},
    )


def _fetch(
    client: httpx.Client, address: str, file: Path, max_pixels: int, wait: float
) -> str | None:
    content, why, again = _body(client, address)
    for retry in range(TRIES - 1):
        if not again:
            break
        time.sleep(wait * 2**retry)
        content, why, again = _body(client, address)
    return why if content is None else _save(content, file, max_pixels)


def _body(client: httpx.Client, address: str) -> tuple[bytes | None, str | None, bool]:
    """An image's bytes; or None, the reason, and True if another try may help."""
    import httpx

    deadline = time.monotonic() + MOST_SECONDS
    content = bytearray()
    try:
        with client.stream("GET", address) as response:
            if response.status_code != 200:
                later = response.status_code == 429 or response.status_code >= 500
                return None, f"the server answered {response.status_code}", later
            if response.headers.get("Content-Encoding", "identity") != "identity":
                return None, "the server compressed the image, which is not accepted", False
            for piece in response.iter_raw():
                content += piece
                if len(content) > MOST_BYTES:
                    return None, f"it has more than {MOST_BYTES} bytes", False
                if time.monotonic() > deadline:
                    return None, f"it took more than {MOST_SECONDS:g} seconds", True
    except InputError as error:
        return None, str(error), False
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return None, f"{type(error).__name__}: {str(error)[:200]}", True
    return bytes(content), None, False


def _check_encrypted(request: httpx.Request) -> None:
    """Refuse a request, redirected ones too, that would go unencrypted over the network."""
    url = request.url
    if url.scheme != "https" and not (url.scheme == "http" and url.host in LOOPBACK):
        raise InputError(f"{str(url)[:200]!r} is not an https address")


def _save(content: bytes, file: Path, max_pixels: int) -> str | None:
    """Write an image to its file, completely or not at all; the reason if it is no image."""
    try:
        with open_image(content) as image:
            jpeg = as_jpeg(image, partial(fit_size, max_pixels=max_pixels))
    except Exception as error:  # decoders raise many kinds of errors
        return f"not an image that can be read ({decoding_error(error)[:200]})"
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    part.write_bytes(jpeg)
    part.replace(file)
    return None
