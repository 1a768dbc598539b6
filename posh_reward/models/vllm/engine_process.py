"""One child process with an engine, from its start to its end."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.models.asker import BLIND
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits, image_for_model
from posh_reward.models.vllm.vllm_environment import boot_command
from posh_reward.models.vllm.wire import EngineReply, image_portions, parse_reply, prompts_json
from posh_reward.process import ChildProcess
from posh_reward.types import Failure

logger = logging.getLogger(__name__)

SILENCE = 60.0  # seconds without a message before the child counts as stuck
PATIENT_SECONDS = 60.0  # with heartbeats but no answer before a warning is logged


class EngineProcess:
    """A child with a loaded engine. All its failures are ``ChildFailureError`` and end it.

    Args:
        python: interpreter that has vLLM.
        settings: of the engine.
        environment: all of the child's variables.
        start_timeout: seconds until it is ready.
        timeout: seconds until the next prompt is answered.

    Raises:
        ChildFailureError: it did not become ready.
        JudgeError: the settings are invalid.
    """

    def __init__(
        self,
        python: str,
        settings: Mapping[str, Any],
        environment: Mapping[str, str],
        start_timeout: float,
        timeout: float,
    ) -> None:
        self._child = ChildProcess(boot_command(python, "serve", settings), environment)
        self._timeout = timeout
        self._ids = itertools.count(1)
        message = self._child.receive(start_timeout)
        if "refused" in message:
            self._child.stop()
            raise JudgeError(str(message["refused"]))
        if "ready" not in message:
            raise self._child.failed(f"could not start: {message.get('fatal', message)}")
        self._sizes = SizeLimits(*message["sizes"]) if "sizes" in message else None

    def ask(
        self, prompts: Sequence[Prompt], what: Mapping[str, Any]
    ) -> Iterator[tuple[int, EngineReply]]:
        """Yield (index, answer) of each prompt as answers arrive; ``what`` is the request's rest.

        Raises:
            ChildFailureError: it died, hung or sent nonsense before all were answered.
        """
        for portion in image_portions(prompts):
            resized = {
                image: BLIND if self._sizes is None else image_for_model(image, self._sizes)
                for place in portion
                for image in prompts[place].images
            }
            sound = []
            for place in portion:
                failures = [resized[each] for each in prompts[place].images]
                failure = next((each for each in failures if isinstance(each, Failure)), None)
                if failure is None:
                    sound.append(place)
                else:
                    yield place, EngineReply(failure=failure)
            request = {**what, **prompts_json([prompts[place] for place in sound], resized)}
            for place, answer in self._answers(request):
                yield sound[place], answer

    def _answers(self, request: Mapping[str, Any]) -> Iterator[tuple[int, EngineReply]]:
        labels = len(request.get("labels", ()))
        missing = set(range(len(request["prompts"])))
        for message in self._replies(request):
            try:
                answers = [
                    (place, parse_reply(answer, labels)) for place, answer in message["answers"]
                ]
                # ``remove`` raises KeyError for an unknown or already answered prompt.
                for place, _ in answers:
                    missing.remove(place)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                fault = f"sent something that is not an answer: {type(error).__name__}: {error}"
                raise self._child.failed(fault[:300]) from None
            yield from answers
        if missing:
            raise self._child.failed(f"left {len(missing)} prompts without an answer")

    def tell(self, what: str) -> None:
        """Tell it to "sleep" or "wake", which have no answer.

        Raises:
            ChildFailureError: it died, hung or sent nonsense.
        """
        for message in self._replies({"do": what}):
            raise self._child.failed(f"answered something else: {str(message)[:200]}")

    def end(self) -> None:
        """Kill it, and all processes that it has started."""
        self._child.stop()

    def _replies(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Messages about a request until it is done, without heartbeats."""
        number = next(self._ids)
        silence = min(SILENCE, self._timeout)
        # Two limits: without heartbeats, the process is stopped or stuck in a call that holds the
        # interpreter's lock; with heartbeats but no answer, the engine makes no progress.
        last, warned = time.monotonic(), False
        message = self._child.exchange({**request, "id": number}, silence)
        while not (message.get("id") == number and "done" in message):
            now = time.monotonic()
            if "beat" in message:
                if now - last > PATIENT_SECONDS and not warned:
                    warned = True
                    logger.warning(
                        "vLLM is alive but has answered nothing for %g s: it is stopped after "
                        "%g s (`timeout`)",
                        *(PATIENT_SECONDS, self._timeout),
                    )
                if now - last > self._timeout:
                    fault = f"answered nothing for {self._timeout:g} s"
                    raise self._child.failed(fault, slow=True)
            elif message.get("id") != number:
                raise self._child.failed(f"answered something else: {str(message)[:200]}")
            else:
                last = now
                yield message
            message = self._child.receive(silence)
