"""Two groups with two rewards each, and the advantages that TRL's own code gives them.

``test_trl.py`` computes them with TRL 1.16.0 (``normalize_then_sum``, weights 1 and 2). Tests of
trainers whose environments cannot hold TRL compare theirs with these.
"""

GROUPS = ["a"] * 4 + ["b"] * 4
WEIGHTS = [1.0, 2.0]
PRECISION = [0.9, 0.5, 0.7, 0.4, 0.8, 0.8, 0.6, 0.3]
RECALL = [0.2, 0.6, 0.4, 0.8, 0.3, 0.6, 0.45, 0.7]
FAILED = 2
JUDGED: list[list[float] | None] = [[*row] for row in zip(PRECISION, RECALL, strict=True)]
LENGTHS = [3, 9, 4, 2, 7, 5, 8, 6]
"""Tokens of the completions."""
CASES = [
    (JUDGED, [-0.8950, 0.1742, -0.3604, 1.0812, -1.3937, 1.4374, -0.6772, 0.6335]),
    (
        [None if at == FAILED else row for at, row in enumerate(JUDGED)],
        [-0.8457, 0.0472, 0, 0.7985, -1.3612, 1.4039, -0.6614, 0.6188],
    ),
]
"""Rewards of the completions, and their advantages."""
