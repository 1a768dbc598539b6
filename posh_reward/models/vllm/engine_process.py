"""One life of the child: it starts, answers, and at some point dies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posh_reward.errors import JudgeError
from posh_reward.models.asker import BLIND
from posh_reward.models.model import Prompt
from posh_reward.models.prompt_images import SizeLimits, settled_image
from posh_reward.models.vllm.sight import portions, request_of
from posh_reward.models.vllm.vllm_environment import boot_command
from posh_reward.models.vllm.wire import EngineReply, read
from posh_reward.process import ChildProcess
from posh_reward.types import Failure, PromptImage

SILENCE = 60.0
"""Seconds without a sign of life after which the child counts as stuck."""


class EngineProcess:
    """A child with a loaded engine. All its failures are ``ChildFailureError``, and end it.

    Args:
        python: interpreter that has vLLM.
        settings: what the engine is made with.
        environment: all of the child's variables.
        start_timeout: seconds until it is ready.
        timeout: seconds until the next prompt is answered.

    Raises:
        ChildFailureError: it did not become ready.
        JudgeError: it cannot be made with such settings.
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
        heard = self._child.receive(start_timeout)
        if "refused" in heard:
            self._child.stop()
            raise JudgeError(str(heard["refused"]))
        if "ready" not in heard:
            raise self._child.failed(f"could not start: {heard.get('fatal', heard)}")
        self._sizes = SizeLimits(*heard["sizes"]) if "sizes" in heard else None

    def ask(
        self, prompts: Sequence[Prompt], what: Mapping[str, Any]
    ) -> Iterator[tuple[int, EngineReply]]:
        """(place, answer) of each prompt as they come.

        Args:
            prompts: in the order in which the engine gets them.
            what: the rest of the request; see ``answers``.

        Raises:
            ChildFailureError: it died, hung or talked nonsense before all were answered.
        """
        for portion in portions(prompts):
            shown = {
                image: self._settled(image) for place in portion for image in prompts[place].images
            }
            sound = []
            for place in portion:
                failures = [shown[each] for each in prompts[place].images]
                failure = next((each for each in failures if isinstance(each, Failure)), None)
                if failure is None:
                    sound.append(place)
                else:
                    yield place, EngineReply(failure=failure)
            request = {**what, **request_of([prompts[place] for place in sound], shown)}
            for place, answer in self._answers(request):
                yield sound[place], answer

    def _answers(self, request: Mapping[str, Any]) -> Iterator[tuple[int, EngineReply]]:
        """(place, answer) of each prompt of one request."""
        labels = len(request.get("labels", ()))
        missing = set(range(len(request["prompts"])))
        for heard in self._replies(request):
            try:
                answers = [(place, read(answer, labels)) for place, answer in heard["answers"]]
                for place, _ in answers:
                    missing.remove(place)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                told = f"sent something that is not an answer: {type(error).__name__}: {error}"
                raise self._child.failed(told[:300]) from None
            yield from answers
        if missing:
            raise self._child.failed(f"left {len(missing)} prompts without an answer")

    def _settled(self, image: PromptImage) -> Any:
        """The image as the model is to see it, or why it cannot."""
        return BLIND if self._sizes is None else settled_image(image, self._sizes)

    def tell(self, what: str) -> None:
        """Tells it to "sleep" or "wake", which have no answer.

        Raises:
            ChildFailureError: it did not.
        """
        for heard in self._replies({"do": what}):
            raise self._child.failed(f"answered something else: {str(heard)[:200]}")

    def end(self) -> None:
        """Kills it, and everything that it has started."""
        self._child.stop()

    def _replies(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What it says to a request until it is done, without the signs of life."""
        number = next(self._ids)
        silence = min(SILENCE, self._timeout)
        last = time.monotonic()
        heard = self._child.exchange({**request, "id": number}, silence)
        while not (heard.get("id") == number and "done" in heard):
            now = time.monotonic()
            if "beat" in heard:
                if now - last > self._timeout:
                    told = f"answered nothing for {self._timeout:g} s"
                    raise self._child.failed(told, slow=True)
            elif heard.get("id") != number:
                raise self._child.failed(f"answered something else: {str(heard)[:200]}")
            else:
                last = now
                yield heard
            heard = self._child.receive(silence)
