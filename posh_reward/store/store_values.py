"""Digests of keys, and texts with checksums that reveal damage."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from hashlib import blake2b

WORTH = 256
"""Minimum size in bytes for compression. A verdict (140 bytes) would shrink only by a quarter, and
compressing it would take longer than everything else."""
LARGEST = 16_000_000  # bytes of the longest text kept, and of a decompressed value
PLAIN, PACKED = b"p", b"z"


def digests(kind: str, space: str, keys: Iterable[str]) -> dict[bytes, str]:
    """Map a 16-byte digest of (kind, space, key) to each key."""
    # Lengths precede the parts, so that ("ab", "c") and ("a", "bc") differ. Kind and space are
    # hashed once, and that state is copied for each key.
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
    """Encode a text with a checksum; None if it is too long to store.

    Four bytes of CRC-32, little-endian; one byte, ``p`` for plain or ``z`` for zlib; the text in
    UTF-8, compressed if that is shorter. SQLite has no checksums: a bit flipped on disk could
    become another grade.
    """
    # The checksum covers the digest: otherwise a damaged index could return another key's text.
    plain = _bytes(text)
    if len(plain) > LARGEST:
        return None
    packed = zlib.compress(plain) if len(plain) >= WORTH else plain
    body = PACKED + packed if len(packed) < len(plain) else PLAIN + plain
    return zlib.crc32(digest + body).to_bytes(4, "little") + body


def unseal(digest: bytes, value: object) -> str | None:
    """Decode a sealed text; None if it is damaged or belongs to another digest."""
    if not isinstance(value, bytes) or len(value) < 5:
        return None
    body = value[4:]
    if zlib.crc32(digest + body) != int.from_bytes(value[:4], "little"):
        return None
    try:
        plain = body[1:]
        if body[:1] == PACKED:
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(plain, LARGEST)
            if not unpacker.eof:  # truncated, or longer than anything we store
                return None
        return plain.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # damage that the checksum missed
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
