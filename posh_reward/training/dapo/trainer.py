"""TRL's GRPOTrainer with dynamic sampling and span credit, each off by default.

TRL makes a training batch in one method, ``_generate_and_score_completions``: it generates,
computes log-probabilities, calls the rewards, and returns advantages and the loss's normaliser.
Dynamic sampling first generates and judges a larger batch and chooses groups. Then it runs that
method on the chosen rows and replays their tokens and rewards, so that TRL derives everything else
from these rows alone: images, masks, advantages, figures. Span credit replaces the advantages that
the method returns, shape (B,), by one per token, shape (B, T), which TRL's loss accepts from
subclasses ("we conditionally unsqueeze", trl 1.16.0, grpo_trainer.py:3057).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from trl import GRPOTrainer
from trl.data_utils import prepare_multimodal_messages
from trl.trainer import grpo_trainer

from posh_reward.errors import ConfigError, PoshError
from posh_reward.training.dapo import credit, sampling
from posh_reward.types import Scores

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Replay:
    """Tokens and rewards of the chosen rows."""

    prompt_ids: list[list[int]]  # of this rank's rows, like the next two
    completion_ids: list[list[int]]
    logprobs: list[list[float]] | None  # vLLM's; None without vLLM
    rewards: Tensor  # of all ranks' rows, shape (ranks x rows, reward functions)


class DapoTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """``GRPOTrainer`` with dynamic sampling and span credit.

    With neither, it is bit for bit TRL's trainer. Evaluation is always TRL's.

    Args:
        dynamic_sampling: how groups are chosen; None to train on all of them.
        span_credit: upper bound on how far a token's advantage differs from its completion's, in
            units of the advantage (standard deviation about 1); 0 is off.
        scored_by: the object that passes the scores behind the rewards to its attribute
            ``observer``; by default the reward functions with that attribute, like ``PoshReward``.
        *args: as TRL's.
        **kwargs: as TRL's.

    Raises:
        ConfigError: a setting does not work with dynamic sampling or span credit.
    """

    # State while one batch is generated and scored.
    _scores: Sequence[Scores] = ()  # of this rank's rows; empty if no reward passed any on
    _replay: Replay | None = None  # set while TRL runs on the chosen rows

    def __init__(
        self,
        *args: Any,
        dynamic_sampling: sampling.DynamicSampling | None = None,
        span_credit: float = 0.0,
        scored_by: Any = None,
        **kwargs: Any,
    ) -> None:
        self.dynamic_sampling = dynamic_sampling
        self.span_credit = span_credit
        self.on_phase: Callable[[str], object] = str
        """Called at the start of each phase: generating, judging, updating."""
        with _larger_engine(dynamic_sampling.at_once if dynamic_sampling else 1):
            super().__init__(*args, **kwargs)
        if dynamic_sampling is not None or span_credit:
            for name in ("tools", "environment_factories", "rollout_func"):
                if getattr(self, name):
                    raise ConfigError(
                        "dynamic sampling and span credit support single-turn descriptions only, "
                        f"and the trainer has {name}: leave both off"
                    )
        if dynamic_sampling is not None:
            sampling.check_sampling(self, dynamic_sampling)
        self._sources = [each for each in self.reward_funcs if hasattr(each, "observer")]
        if scored_by is not None:
            self._sources = [scored_by]
        if span_credit:
            credit.check_span_credit(span_credit, self)
            if not self._sources:
                raise ConfigError(
                    "span credit needs the scores behind a reward, and no reward function passes "
                    "them on: use PoshReward, or name an object with an observer as scored_by"
                )

    # Larger batches for dynamic sampling.

    @property
    def _oversample(self) -> int:
        return self.dynamic_sampling.oversample if self.dynamic_sampling else 1

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler = super()._get_train_sampler(dataset)
        sampler.batch_size *= self._oversample  # prompts per generation
        return sampler

    def _get_dataloader(
        self,
        dataset: Any,
        description: str,
        batch_size: int,
        sampler_fn: Any = None,
        is_training: bool = False,
        dataloader_key: str | None = None,
    ) -> Any:
        batch_size *= self._oversample if is_training else 1
        return super()._get_dataloader(
            dataset, description, batch_size, sampler_fn, is_training, dataloader_key
        )

    # The batch.

    def _generate_and_score_completions(self, inputs: list[Row]) -> dict[str, Any]:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)  # type: ignore[no-any-return]
        try:
            if self.dynamic_sampling is not None:
                inputs = self._choose_rows(inputs, self.dynamic_sampling)
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            if self.span_credit:
                output["advantages"] = self._with_credit(output)
            return output
        finally:
            self._scores, self._replay = (), None

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        seen = self.state.num_input_tokens_seen
        rollouts: tuple[Any, ...] = super()._generate(prompts)
        if self._replay is not None:  # its tokens were counted when they were generated
            self.state.num_input_tokens_seen = seen
            self._metrics["train"]["num_tokens"] = [seen]
        return rollouts

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        if self._replay is None:
            self.on_phase("generating")
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)  # type: ignore[no-any-return]
        # TRL makes the prompts again from the chosen rows. If they differed, the replayed
        # completions would be trained on as answers to the wrong prompts.
        if prompt_ids != self._replay.prompt_ids:
            raise PoshError(
                "TRL made other prompts from the chosen rows than dynamic sampling generated from: "
                "leave dynamic sampling off, and report this with your dataset's columns"
            )
        return self._replay.completion_ids, self._replay.logprobs

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Tensor:
        if self._replay is not None:
            return self._replay.rewards
        self.on_phase("judging")
        began = time.perf_counter()
        with _collect_scores(self._sources) as calls:
            rewards: Tensor = super()._calculate_rewards(
                inputs, prompts, completions, completion_ids_list
            )
        self.on_phase("updating")
        if self.model.training:
            self._metrics["train"]["judging_time"].append(time.perf_counter() - began)
        self._scores = calls[0] if calls and len(calls[0]) == len(prompts) else ()
        return rewards

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log TRL's figures, and this rank's share of the step time spent judging."""
        logged = self._metrics["train"]
        if self.model.training and logged.get("step_time"):
            share = sum(logged.get("judging_time", ())) / sum(logged["step_time"])
            logged["judging_share"] = [share]
        super().log(logs, start_time)

    # Dynamic sampling.

    def _choose_rows(self, inputs: list[Row], settings: sampling.DynamicSampling) -> list[Row]:
        """Generate and judge rows, all or as many as needed; return those to train on."""
        ranks, group = self.accelerator.num_processes, self.num_generations
        prompts = build_conversations(inputs)
        need = len(inputs) // group // settings.oversample  # groups per rank
        prompt_ids: list[list[int]] = []
        completion_ids: list[list[int]] = []
        logprobs: list[list[float]] = []
        by_round: list[Tensor] = []  # one per round, (ranks, rows, reward functions)
        scores: list[Scores] = []
        last, count = 0, need * settings.at_once * group
        while count:
            first, last = last, last + count
            # A sleeping vLLM drops its weights. TRL pushes them once, before the first round.
            if first and self.use_vllm and self.args.vllm_enable_sleep_mode:
                self._last_loaded_step = -1  # makes TRL push them again
            ids, generated, _, completions, logps, *_ = self._generate(prompts[first:last])
            rewards = self._calculate_rewards(
                inputs[first:last], prompts[first:last], completions, generated
            )
            prompt_ids += ids
            completion_ids += generated
            logprobs += logps or ()
            by_round.append(rewards.view(ranks, count, -1))
            scores += self._scores
            all_rewards = torch.cat(by_round, dim=1)
            spread = self._measure_spread(all_rewards)
            # All ranks see all rewards, so they agree on the next round: as many groups as the
            # rank with the fewest wide ones lacks.
            lack = need - int((spread >= settings.min_spread).sum(1).min())
            count = min(max(lack, 0) * group, len(inputs) - last)
        groups = sampling.choose_groups(spread, need, settings.min_spread)
        for name, values in self._metrics["train"].items():
            if name.startswith("completions/"):  # TRL logs these again, of the chosen rows
                del values[-len(by_round) :]
        for name, value in sampling.summarise_choice(spread, groups, settings.min_spread).items():
            self._metrics["train"][name].append(value)
        within = torch.arange(group, device=groups.device)
        rows = (groups.unsqueeze(-1) * group + within).flatten(1)  # (ranks, groups x group)
        own = rows[self.accelerator.process_index].tolist()

        def keep(values: Sequence[T]) -> list[T]:
            return [values[row] for row in own]

        for column, values in self._pending_extra_logs.items():
            if len(values) == last:  # logged per completion: keep the chosen rows, as TRL does
                self._pending_extra_logs[column] = keep(values)
        # All ranks' rewards, as TRL gathers them: each rank normalises by the same groups.
        chosen = [of_rank[each] for of_rank, each in zip(all_rewards, rows, strict=True)]
        self._scores = keep(scores) if len(scores) == last else ()
        self._replay = Replay(
            prompt_ids=keep(prompt_ids),
            completion_ids=keep(completion_ids),
            logprobs=keep(logprobs) if logprobs else None,
            rewards=torch.cat(chosen),
        )
        return keep(inputs)

    def _measure_spread(self, rewards: Tensor) -> Tensor:
        """Return each group's spread: (ranks, rows, reward functions) -> (ranks, groups)."""
        spread = sampling.measure_spreads(
            rewards.reshape(-1, self.num_generations, rewards.shape[-1]),
            self.reward_weights.to(rewards.device),
            each_normalised=self.multi_objective_aggregation == "normalize_then_sum",
        )
        return spread.view(len(rewards), -1)

    # Span credit.

    def _with_credit(self, output: Mapping[str, Any]) -> Tensor:
        """Return each token's advantage, shape (B, T); 0 at padding and where TRL masks."""
        mask = output["completion_mask"]
        by_token = torch.zeros(mask.shape, dtype=torch.float32)  # (B, T)
        without = 0
        all_scores: Sequence[Scores | None] = self._scores or [None] * len(mask)
        for row, (ids, length, scores) in enumerate(
            zip(output["completion_ids"].tolist(), mask.sum(1).tolist(), all_scores, strict=True)
        ):
            # Without scores, or if the text is not in the tokens, each token keeps the completion's
            # advantage.
            values = scores and credit.compute_credits(ids[:length], scores, self._decode_text)
            without += values is None
            by_token[row, :length] = torch.tensor(values or [0.0] * length)
        by_token = by_token.to(mask.device)
        self._log_credit(by_token, mask, without)
        advantages = output["advantages"].unsqueeze(1) + self.span_credit * by_token
        advantages_by_token: Tensor = advantages * mask  # (B, T)
        return advantages_by_token

    def _decode_text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _log_credit(self, by_token: Tensor, mask: Tensor, without: int) -> None:
        counts = torch.tensor([without, len(mask)], device=mask.device)
        sums = torch.stack([(by_token != 0).sum(), by_token.abs().sum(), mask.sum(), *counts])
        totals = self.accelerator.gather(sums.float()).view(-1, 5).sum(0)
        credited, size, tokens, without_scores, rows = totals.tolist()
        self._metrics["train"]["span_credit/token_share"].append(credited / max(tokens, 1.0))
        self._metrics["train"]["span_credit/size"].append(size / max(credited, 1.0))
        self._metrics["train"]["span_credit/without"].append(without_scores / rows)


@contextmanager
def _larger_engine(times: int) -> Iterator[None]:
    """Let TRL make a colocated vLLM for ``times`` as many sequences.

    TRL sizes it for the completions trained on (trl 1.16.0, grpo_trainer.py:1124), so those of
    ``oversample: 2`` would be decoded in two waves, one after the other.
    """
    made = grpo_trainer.VLLMGeneration

    def make(*args: Any, max_num_seqs: int, **options: Any) -> Any:
        return made(*args, max_num_seqs=times * max_num_seqs, **options)

    grpo_trainer.VLLMGeneration = make
    try:
        yield
    finally:
        grpo_trainer.VLLMGeneration = made


def build_conversations(inputs: Sequence[Row]) -> list[Any]:
    """Return rows' prompts with their images, exactly as TRL builds them."""
    prompts = [row["prompt"] for row in inputs]
    if "images" in inputs[0]:
        images = [row.get("images") for row in inputs]
    elif "image" in inputs[0]:
        images = []
        for row in inputs:
            image = row.get("image")
            images.append(None if image is None else [image])
    else:
        return prompts
    if all(each == [] for each in images):
        return prompts
    return [
        prepare_multimodal_messages(prompt, images=each)
        for prompt, each in zip(prompts, images, strict=True)
    ]


@contextmanager
def _collect_scores(rewards: Sequence[Any]) -> Iterator[list[Sequence[Scores]]]:
    """Collect the scores that rewards compute inside this context, one list per call."""
    calls: list[Sequence[Scores]] = []
    before = [reward.observer for reward in rewards]
    for reward in rewards:
        reward.observer = calls.append
    try:
        yield calls
    finally:
        for reward, observer in zip(rewards, before, strict=True):
            reward.observer = observer
