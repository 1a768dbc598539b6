"""Environments whose reward is a description's: TRL, OpenEnv, NeMo Gym.

No ``from __future__ import annotations`` here: pydantic reads those of the classes in functions.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

from posh_reward.adapters.completion_results import (
    AnyReward,
    CompletionResult,
    SampleRewards,
    framework,
    shared_rewards,
)
from posh_reward.types import WORST_SCORE

PROMPT = "Describe the image in detail."


class DescribeEnvironment:
    """An environment for TRL's ``environment_factory`` that owns its reward.

    The policy calls its tool ``describe``; without a call the reward is the worst. Calls that are
    made together are scored together. A description that could not be judged has no reward, so TRL
    leaves it out.
    """

    reward: ClassVar[AnyReward | str | None] = None
    """As for ``reward_of``; a subclass names another."""
    _pool: ClassVar = ThreadPoolExecutor(64)

    def reset(self, **columns: Any) -> None:
        """Begin with a row's columns, such as ``reference``."""
        self._columns = columns
        self._result: Future[CompletionResult] | None = None

    def describe(self, description: str) -> str:
        """Hand in the description of the image.

        Args:
            description: The whole description.
        """
        rewards = shared_rewards(self.reward)
        self._result = self._pool.submit(rewards, description, **self._columns)
        return "done"

    def get_reward(self) -> float | None:
        """Return the reward of the last description; None if it could not be judged."""
        if self._result is None:
            return WORST_SCORE
        return self._result.result().reward


def openenv_app(rows: Sequence[Mapping[str, Any]], reward: AnyReward | str | None = None) -> Any:
    """Make an OpenEnv server of one-step episodes; ``uvicorn module:app`` runs it.

    Args:
        rows: ``reference``, other columns, and optionally ``prompt``. An episode's row is that of
            its seed, or whatever ``reset`` gets by keyword.
        reward: as for ``reward_of``. If a description could not be judged, ``reward`` is null and
            the metadata has the reason.
    """
    with framework("openenv==0.10.0"):
        from openenv.core.env_server.http_server import create_fastapi_app
        from openenv.core.env_server.interfaces import Environment
        from openenv.core.env_server.types import Action, Observation, State
    rewards = SampleRewards(reward)

    class Description(Action):  # type: ignore[misc]
        description: str

    class Outcome(Observation):  # type: ignore[misc]
        prompt: str

    class DescriptionServer(Environment):  # type: ignore[misc]
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._episodes, self._state, self._row = 0, State(), dict[str, Any]()

        def reset(
            self, seed: int | None = None, episode_id: str | None = None, **columns: Any
        ) -> Outcome:
            place = self._episodes if seed is None else seed
            self._row = {**rows[place % len(rows)], **columns}
            self._episodes += 1
            self._state = State(episode_id=episode_id)
            return Outcome(prompt=self._row.get("prompt", PROMPT))

        @property
        def state(self) -> State:
            return self._state

        def step(
            self, action: Description, timeout_s: float | None = None, **columns: Any
        ) -> Outcome:
            self._state.step_count += 1
            row = {**self._row, **columns}  # over HTTP each request has a new environment
            result = rewards(action.description, **row)
            failure = result.failure and str(result.failure)
            metadata = {**result.figures, "elements": result.elements, "failure": failure}
            prompt = row.get("prompt", PROMPT)
            return Outcome(prompt=prompt, done=True, reward=result.reward, metadata=metadata)

    return create_fastapi_app(
        DescriptionServer, Description, Outcome, max_concurrent_envs=64, env_name="descriptions"
    )


def nemo_gym_server() -> Any:
    """Make a class for NeMo Gym's ``app.py``: ``nemo_gym_server().run_webserver()``.

    Its setting ``reward`` is as for ``reward_of``. Requests hold a row's columns
    (``reference``, ...). The reward is the sum of its components, the objectives, as NeMo-RL wants;
    what could not be judged has ``mask_sample`` and the reason.
    """
    with framework("nemo-gym==0.7.0"):
        from nemo_gym.base_resources_server import (
            BaseMultiRewardVerifyResponse,
            BaseResourcesServerConfig,
            BaseVerifyRequest,
            SimpleResourcesServer,
        )
        from nemo_gym.failure_kinds import JUDGE_FAILED
        from pydantic import ConfigDict, PrivateAttr

    class Config(BaseResourcesServerConfig):  # type: ignore[misc]
        reward: str | None = None

    class Request(BaseVerifyRequest):  # type: ignore[misc]
        model_config = ConfigDict(extra="allow")

    class Response(BaseMultiRewardVerifyResponse):  # type: ignore[misc]
        model_config = ConfigDict(extra="allow")

    class DescriptionServer(SimpleResourcesServer):  # type: ignore[misc]
        ray_enabled: ClassVar = False
        config: Config
        _rewards: SampleRewards = PrivateAttr()

        def model_post_init(self, context: Any) -> None:
            super().model_post_init(context)
            self._rewards = SampleRewards(self.config.reward, several=True)

        async def verify(self, body: Request) -> Response:
            parts: list[str] = []
            for item in body.response.output:
                if item.type == "message":
                    parts += [part.text for part in item.content if hasattr(part, "text")]
            result = await self._rewards.call_async("".join(parts), **(body.model_extra or {}))
            axes, lost = result.axes, result.reward is None
            failure_kind, failure_reason = None, None
            if lost:
                axes = dict.fromkeys(axes, WORST_SCORE)
                failure_kind, failure_reason = JUDGE_FAILED, str(result.failure)
            return Response(
                **body.model_dump(),
                **{name: value for name, value in result.figures.items() if value is not None},
                reward=sum(axes.values()),
                reward_components=axes,
                mask_sample=lost,
                failure_kind=failure_kind,
                failure_reason=failure_reason,
            )

    return DescriptionServer
