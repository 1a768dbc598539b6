"""Make pages on which people compare the texts of two or more models, blind.

    python recipes/generate.py --models runs/sft --dataset scenes --output runs/sft.jsonl
    python recipes/generate.py --models runs/dapo --dataset scenes --output runs/dapo.jsonl
    python recipes/make_packets.py runs/sft.jsonl runs/dapo.jsonl -o runs/packet --dataset scenes
    posh-reward packets read runs/packet.key.json answers/ --page runs/result.html

The same as ``posh-reward packets make``, whose ``--help`` lists the flags; docs/study.md explains
what to hand out and what comes back.
"""

from __future__ import annotations

import sys

from posh_reward.cli import main

if __name__ == "__main__":
    sys.exit(main(["packets", "make", *sys.argv[1:]]))
