"""Coordinations such as "a man and a woman", which plural pronouns may resume."""

from __future__ import annotations

from posh_reward.graph.coref.chunks import Chunk
from posh_reward.graph.coref.words import Words


def coordinated(words: Words, chunks: list[Chunk], ends: list[int]) -> list[list[int]]:
    """Indices of the phrases of each coordination; ``ends`` are their last tokens."""
    groups, run = [], [0] if chunks else []
    for index in range(1, len(chunks) + 1):
        if index < len(chunks) and joined(words, chunks, ends, run, index):
            run.append(index)
            continue
        between = range(ends[run[0]], chunks[run[-1]].start) if len(run) > 1 else ()
        if any(words.lower[i] == "and" for i in between):
            groups.append(run)
        run = [index]
    return groups


def joined(words: Words, chunks: list[Chunk], ends: list[int], run: list[int], index: int) -> bool:
    """Whether a phrase continues a coordination: only ", and" between, and parsed as one."""
    chunk = chunks[index]
    between = words.lower[ends[run[-1]] + 1 : chunk.start]
    parent, last = words.head[chunk.head], chunks[run[-1]].head
    conjunct = words.dep[chunk.head] == "conj" and any(
        chunks[i].start <= parent <= chunks[i].head for i in (run[0], run[-1])
    )
    twins = words.dep[chunk.head] == words.dep[last] and parent == words.head[last]
    linked = conjunct or twins
    return linked and 0 < len(between) <= 2 and set(between) <= {",", "and"}
