"""Digests of keys, and texts behind a checksum, so that damage shows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from hashlib import blake2b

WORTH = 256
"""Texts of at least this many bytes are compressed. A verdict (140 bytes) is not: it would shrink
by a quarter, and compressing it would take longer than everything else."""
LARGEST = 16_000_000  # bytes of the longest text that is kept, and that a value may decompress to
PLAIN, PACKED = b"p", b"z"


def digests(kind: str, space: str, keys: Iterable[str]) -> dict[bytes, str]:
    """Map a 16-byte digest of (kind, space, key) to each key."""
    # Lengths before the parts, or ("ab", "c") and ("a", "bc") would be one; the hash of kind and
    # space is computed once and copied for each key.
    prefix = blake2b(digest_size=16)
    for part in (_bytes(kind), _bytes(space)):
        prefix.update(len(part).to_bytes(8, "little") + part)
    key_of: dict[bytes, str] = {}
    for key in keys:
        whole = prefix.copy()
        whole.update(_bytes(key))
        key_of[whole.digest()] = key
    return key_of


def seal(digest: bytes, text: str) -> bytes | None:
    """A text as bytes behind a checksum of them and their digest; None if it is too long to keep.

    Four bytes of CRC-32, little-endian; one byte, ``p`` for plain or ``z`` for zlib; the text in
    UTF-8, compressed where that is shorter. SQLite has no checksums of its own: a flipped bit on a
    disk would be another grade.
    """
    # The digest is under the checksum, too: a damaged index would else give another key's text.
    plain = _bytes(text)
    if len(plain) > LARGEST:
        return None
    packed = zlib.compress(plain) if len(plain) >= WORTH else plain
    body = PACKED + packed if len(packed) < len(plain) else PLAIN + plain
    return zlib.crc32(digest + body).to_bytes(4, "little") + body


def unseal(digest: bytes, value: object) -> str | None:
    """Undo ``seal``; None if the value is not a text under this digest."""
    if not isinstance(value, bytes) or len(value) < 5:
        return None
    body = value[4:]
    if zlib.crc32(digest + body) != int.from_bytes(value[:4], "little"):
        return None
    try:
        plain = _unpack(body[1:]) if body[:1] == PACKED else body[1:]
        return plain.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # damage that the checksum missed
        return None


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(packed, LARGEST)
    if not unpacker.eof:  # cut short, or longer than anything that we keep
        raise zlib.error("no end within the largest text")
    return plain


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
