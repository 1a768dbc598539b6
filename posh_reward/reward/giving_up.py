"""When a run that gets no rewards any more should stop, whatever the metric."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from posh_reward.errors import InputError, JudgeError
from posh_reward.types import Failure

logger = logging.getLogger(__name__)


class GivesUp:
    """A reward that gives up on its judge after many calls in a row in which most had no score.

    Most, not all: a judge that answers one question in twenty would let a run train to its end on
    the few completions that it happened to get through.

    Args:
        max_failed_calls: how many.

    Raises:
        InputError: that is less than 1.
    """

    failure: Failure | None
    """Why the run should stop; None as long as it should not."""

    def __init__(self, max_failed_calls: int) -> None:
        if max_failed_calls < 1:
            raise InputError(f"max_failed_calls is {max_failed_calls}: give 1 or more")
        self.max_failed_calls = max_failed_calls
        self.begin()

    def begin(self, *, supervised: bool = False) -> None:
        """Forgets earlier failures: a run begins.

        Args:
            supervised: something else stops the run once ``failure`` is set
                (``StopWithCheckpoint``); otherwise ``note_failures`` raises.
        """
        self.failure = None
        self._supervised = supervised
        self._failed_calls = 0

    @property
    def stopping(self) -> bool:
        """Whether the run is about to be stopped, so that nothing more need be asked."""
        return self._supervised and self.failure is not None

    def note_failures(self, failures: Sequence[Failure | None]) -> None:
        """Takes note of one call, and logs why completions failed.

        Args:
            failures: of each completion; None for one that was scored.

        Raises:
            JudgeError: it was one failed call too many, and nothing else stops the run.
        """
        reasons = Counter(str(failure) for failure in failures if failure is not None)
        if not reasons:
            self._failed_calls = 0
            return
        failed = sum(reasons.values())
        listed = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        logger.warning("%d of %d completions have no reward: %s", failed, len(failures), listed)
        self._failed_calls = self._failed_calls + 1 if 2 * failed > len(failures) else 0
        if self._failed_calls < self.max_failed_calls:
            return
        self.failure = self.failure or Failure(
            "engine",
            f"most completions could not be judged in {self._failed_calls} calls in a row; "
            f"the last reason: {reasons.most_common(1)[0][0]}. Fix that and resume from the last "
            "checkpoint, or raise max_failed_calls",
        )
        if not self._supervised:
            raise JudgeError(str(self.failure))
