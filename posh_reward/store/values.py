"""What stands in a row: a digest for each key, and a text sealed so that damage shows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from hashlib import blake2b

WORTH = 256
"""Bytes from which a text is tried smaller. A verdict is below: it would lose a quarter of its
140 bytes, and take longer over that than over everything else."""
PLAIN, PACKED = b"p", b"z"


def digests(kind: str, space: str, keys: Iterable[str]) -> dict[bytes, str]:
    """16 bytes that stand for (kind, space, key), each with its key."""
    begun = blake2b(digest_size=16)
    for part in (_bytes(kind), _bytes(space)):
        begun.update(len(part).to_bytes(8, "little") + part)
    named: dict[bytes, str] = {}
    for key in keys:
        name = begun.copy()
        name.update(_bytes(key))
        named[name.digest()] = key
    return named


def sealed(digest: bytes, text: str) -> bytes:
    """A text as bytes, packed where that is shorter, behind a checksum of it and its digest.

    SQLite has no checksums of its own: a flipped bit on a disk would be another grade.
    """
    plain = _bytes(text)
    packed = zlib.compress(plain) if len(plain) >= WORTH else plain
    body = PACKED + packed if len(packed) < len(plain) else PLAIN + plain
    return zlib.crc32(digest + body).to_bytes(4, "little") + body


def unsealed(digest: bytes, value: object) -> str | None:
    """Undoes ``sealed``; None if the value is not what was sealed under this digest."""
    if not isinstance(value, bytes) or len(value) < 5:
        return None
    body = value[4:]
    if zlib.crc32(digest + body) != int.from_bytes(value[:4], "little"):
        return None
    try:
        plain = zlib.decompress(body[1:]) if body[:1] == PACKED else body[1:]
        return plain.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # damage that the checksum missed
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
