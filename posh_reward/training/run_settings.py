"""Parse a recipe's flags and configuration, and check them before anything is loaded."""

from __future__ import annotations

import json
import os
from argparse import Action, ArgumentDefaultsHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, make_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from trl import TrlParser

from posh_reward.datasets.load_dataset import PAPER_PROMPT
from posh_reward.errors import ConfigError, PoshError, on_one_line
from posh_reward.models.prompt_images import TOKEN_PIXELS
from posh_reward.posh.check import NOT_CHECKED
from posh_reward.posh.load_metric import metric_flags, read_reward_metric
from posh_reward.reward.guards import Guards
from posh_reward.reward.objectives import settle_aggregation
from posh_reward.reward.shaping import build_shaping
from posh_reward.reward.trl import FailureLimit
from posh_reward.settings import (
    find_type_error,
    read_settings,
    read_switch,
    shorten,
    suggest_name,
    trust_settings,
)
from posh_reward.training.dapo.credit import check_span_credit
from posh_reward.training.dapo.sampling import MIN_SPREAD, DynamicSampling, check_groups
from posh_reward.training.learning import NO_MASTER_WEIGHTS

LIKE_KEY = "like"  # key of a configuration: another one, from which it inherits
ENV_KEY = "env"  # key of a configuration: environment variables, as in TRL
CHECK_FLAG = "--check"
ALL_HELP_FLAG = "--help_all"
TRUST_FLAGS = ("--trust_settings", "--trust-settings")  # as in TRL, and as in our commands
LAUNCHER_KEYS = ("deepspeed_multinode_launcher", "deepspeed_hostfile")
"""Keys of ``deepspeed_config`` for the launcher, not for DeepSpeed itself."""
MAX_PROMPT_TOKENS = 64
"""Upper bound for the paper's prompt in Qwen's chat format, without the image."""


def flag(default: Any, help: str) -> Any:
    """Return a field of a recipe's settings, with its default and its line in ``--help``."""
    return field(default=default, metadata={"help": help})


def parse_for(kinds: Sequence[type], argv: Sequence[str], layout: Processes) -> tuple[Any, ...]:
    """Parse and check a run's settings as if in these processes, from one process on a CPU."""
    script, training, *others = kinds
    # The trainer's settings divide batches by ``world_size``, which only a real run knows.
    with_world_size = make_dataclass(
        training.__name__, (), bases=(training,), namespace={"world_size": layout.processes}
    )
    settings = parse_flags((script, with_world_size, *others), [*argv, "--use_cpu"])
    validate_settings(settings, layout)
    return settings


def parse_flags(kinds: Sequence[type], argv: Sequence[str]) -> tuple[Any, ...]:
    """Parse flags and the configuration of ``--config`` into one object of each dataclass."""
    flags = list(argv)
    parser = SettingsParser(kinds)
    parser.add_argument(
        CHECK_FLAG, action="store_true", help="show what would run, and whether it fits"
    )
    parser.add_argument(*TRUST_FLAGS, action="store_true", help="let the configuration and the "
                        "files that it names run programs and send keys (docs/cli.md)")  # fmt: skip
    if not {"-h", "--help"}.isdisjoint(flags):
        print(_own_help(kinds[0]))
        raise SystemExit(0)
    if ALL_HELP_FLAG in flags:
        parser.print_help()
        raise SystemExit(0)
    if not {*TRUST_FLAGS}.isdisjoint(flags):
        trust_settings()
    if "--config" in flags:
        place = flags.index("--config")
        if place + 1 == len(flags):
            raise ConfigError("--config has no value: name a file after it")
        _set_defaults(parser, kinds, read_config(Path(flags[place + 1])), flags[place + 1])
        del flags[place : place + 2]
    try:
        *objects, unknown = parser.parse_args_into_dataclasses(flags, return_remaining_strings=True)
    except (ValueError, TypeError) as error:  # from the dataclasses' own checks
        raise ConfigError(str(error)) from None
    if unknown:
        options = [option for action in parser.actions for option in action.option_strings]
        raise ConfigError(f"unknown flag {unknown[0]}{suggest_name(unknown[0], options)}")
    return tuple(objects[: len(kinds)])  # without the last, a namespace with --check alone


def _own_help(kind: type) -> str:
    """Flags of the recipe itself; TRL's and transformers' take more than a thousand lines."""
    parser = SettingsParser((kind,))
    parser.usage = f"{parser.prog} --config FILE [{CHECK_FLAG}] [flags]"
    others = (
        f"Flags of TRL and transformers, such as --learning_rate: {parser.prog} {ALL_HELP_FLAG}"
    )
    return f"{parser.format_help()}\n{others}"


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration, with the settings that it inherits through ``like``."""
    settings: dict[str, Any] = {}
    for _, lines in config_chain(path):
        settings = lines | settings
    return settings


def config_chain(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a configuration and its ancestors, nearest first, each with its own settings."""
    seen: set[Path] = set()
    while True:
        if path.resolve() in seen:
            raise ConfigError(f"{path} inherits from itself (`like`): name another configuration")
        seen.add(path.resolve())
        lines = read_settings(path)
        base = lines.pop(LIKE_KEY, None)
        yield path, lines
        if base is None:
            return
        path = path.parent / str(base)


def _set_defaults(
    parser: SettingsParser, kinds: Sequence[type], settings: Mapping[str, Any], name: str
) -> None:
    """Make settings the parser's defaults, and set the environment variables under ``env``."""
    hints: dict[str, Any] = {}
    for kind in kinds:
        hints |= get_type_hints(kind)
    names = [action.dest for action in parser.actions]
    settings = {key: read_switch(value, hints.get(key, Any)) for key, value in settings.items()}
    for key, value in settings.items():
        if key != ENV_KEY and key not in names:
            raise ConfigError(f"{name}: unknown setting {key!r}{suggest_name(key, names)}")
        if isinstance(value, str):  # argparse converts strings, such as 1e-6, itself
            continue
        problem = find_type_error(value, hints.get(key, Any))
        if problem is not None:
            raise ConfigError(f"{name}: {key} is {shorten(value)}: {problem}")
    variables = settings.get(ENV_KEY, {})
    if not isinstance(variables, Mapping):
        raise ConfigError(f"{name}: env is {shorten(variables)}: use a mapping")
    os.environ.update({key: str(value) for key, value in variables.items()})
    defaults = {key: value for key, value in settings.items() if key != ENV_KEY}
    parser.set_defaults_with_config(**defaults)


class HelpFormatter(ArgumentDefaultsHelpFormatter):
    """Formatter that adds a flag's default to its help, unless the help names it."""

    def _get_help_string(self, action: Action) -> str | None:
        if action.help and "(default" in action.help:
            return action.help
        return super()._get_help_string(action)


class SettingsParser(TrlParser):  # type: ignore[misc]
    """TRL's parser, without the usage of three hundred flags before each error."""

    def __init__(self, kinds: Sequence[type]) -> None:
        super().__init__(kinds, formatter_class=HelpFormatter)

    @property
    def actions(self) -> list[Action]:
        """All flags."""
        actions: list[Action] = self._actions
        return actions

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError; argparse calls this for an invalid value."""
        raise ConfigError(message)


# Processes.


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run; each has its own GPU, unless the run is on the CPU."""

    processes: int = 1  # on all machines together
    machines: int = 1
    zero_stage: int = 0
    """DeepSpeed's: 1 spreads optimizer states over the processes, 2 gradients too, 3 parameters
    too. 0: no DeepSpeed; each process has everything."""
    offloads_optimizer: bool = False  # its states are in the host's memory
    offloads_parameters: bool = False
    gathers_on_save: bool = True  # under ``zero_stage`` 3 the whole model can be saved
    has_fsdp: bool = False

    @property
    def on_one_machine(self) -> int:
        """Processes of each machine."""
        return self.processes // self.machines

    @classmethod
    def of_this_run(cls, args: Any) -> Processes:
        """Read the running processes from the trainer's arguments and the environment."""
        processes = args.world_size
        machines = max(processes // max(int(os.environ.get("LOCAL_WORLD_SIZE") or 1), 1), 1)
        plugin = getattr(args, "deepspeed_plugin", None)
        if plugin is None:
            has_fsdp = os.environ.get("ACCELERATE_USE_FSDP") == "true" or bool(args.fsdp)
            return cls(processes, machines, has_fsdp=has_fsdp)
        return _deepspeed_processes(processes, machines, plugin)


def _deepspeed_processes(processes: int, machines: int, plugin: Any) -> Processes:
    stage = int(plugin.zero_stage)
    return Processes(
        processes,
        machines,
        zero_stage=stage,
        offloads_optimizer=plugin.offload_optimizer_device not in (None, "none"),
        offloads_parameters=plugin.offload_param_device not in (None, "none"),
        gathers_on_save=stage < 3 or bool(plugin.zero3_save_16bit_model),
    )


def read_processes(path: Path) -> Processes:
    """Read the processes from a file for ``accelerate launch --config_file``.

    accelerate's own code parses it, up to the settings that DeepSpeed would get.
    """
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import DeepSpeedPlugin

    # ``accelerate launch`` silently accepts unknown names under ``deepspeed_config``.
    inner = read_settings(path).get("deepspeed_config") or {}
    if not isinstance(inner, dict):
        raise ConfigError(f"{path.name}: deepspeed_config is {shorten(inner)}: use a mapping")
    names = [each.name for each in fields(DeepSpeedPlugin)]
    for name in inner.keys() - {*names, *LAUNCHER_KEYS}:
        raise ConfigError(f"{path.name}: unknown setting {name!r}{suggest_name(name, names)}")
    try:
        cluster = load_config_from_file(str(path))
        processes, machines = int(cluster.num_processes), int(cluster.num_machines)
        kind = str(cluster.distributed_type).rpartition(".")[2]
        if kind != "DEEPSPEED":
            return Processes(processes, machines, has_fsdp=kind == "FSDP")
        known = {name: value for name, value in inner.items() if name in names}
        plugin = DeepSpeedPlugin(**known)
        plugin.set_mixed_precision(cluster.mixed_precision)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path.name}: {error}") from None
    return _deepspeed_processes(processes, machines, plugin)


# Combinations that would stop a run after loading its weights, or spoil it.


def validate_settings(settings: Sequence[Any], layout: Processes) -> None:
    """Raise ConfigError with all combinations that the trainer would refuse later."""
    script, args, model = settings
    reasons = [
        *_check_saving(args, layout),
        *_check_best_metric(script, args),
        *_check_precision(args, model, layout),
        *_check_lengths(script, args),
        *_check_reward(script, args),
    ]
    if reasons:
        raise ConfigError("; ".join(reasons))


def _check_saving(args: Any, layout: Processes) -> Iterator[str]:
    # transformers/trainer.py, Trainer.__init__: "can't be used with `save_only_model` along with"
    if layout.zero_stage and args.save_only_model and args.load_best_model_at_end:
        yield (
            "save_only_model and load_best_model_at_end exclude each other under DeepSpeed: remove "
            "load_best_model_at_end; output_dir gets the best checkpoint's weights anyway"
        )
    if not layout.gathers_on_save:
        yield (
            "under ZeRO-3 the trained model could not be saved as a whole: set "
            "zero3_save_16bit_model: true in accelerate's deepspeed_config"
        )


def _check_precision(args: Any, model: Any, layout: Processes) -> Iterator[str]:
    """Check that the optimizer's updates are not rounded away."""
    # FSDP makes float32 copies if it computes in a lower precision (accelerate 1.15,
    # Accelerator.prepare_model and fsdp2_prepare_model), PEFT makes adapters in float32.
    has_masters = layout.zero_stage or (layout.has_fsdp and (args.bf16 or args.fp16))
    if has_masters or model.use_peft or weights_type(model) not in ("bfloat16", "float16"):
        return
    yield f"dtype is {model.dtype}: {NO_MASTER_WEIGHTS}"


def weights_type(model: Any) -> str:
    """Return the type in which a model's weights are loaded; of one on the hub "auto" is 16-bit."""
    if model.dtype != "auto":
        return model.dtype or "float32"
    config = Path(model.model_name_or_path or "") / "config.json"
    if not config.is_file():
        return "bfloat16"
    saved = json.loads(config.read_text(encoding="utf-8"))
    return str(saved.get("dtype", saved.get("torch_dtype", "bfloat16")))


def _check_best_metric(script: Any, args: Any) -> Iterator[str]:
    """Check that the metric that selects a checkpoint is evaluated."""
    figure = args.metric_for_best_model
    if figure is None:
        return
    if not is_evaluated(args):
        yield f"metric_for_best_model is {figure!r}, but nothing is evaluated: set eval_strategy"
        return
    if not _saves_each_evaluation(args):
        yield (
            f"metric_for_best_model is {figure!r}, but not every evaluated checkpoint is saved, so "
            "the best could be lost: set save_strategy, and save_steps, as eval_strategy and "
            "eval_steps"
        )
    name = f"eval_{figure.removeprefix('eval_')}"
    case, losses = "without", ["eval_loss"]
    if getattr(script, "watch_grounding", False):
        case, losses = "with", ["eval_right_loss", "eval_shuffled_loss"]
    if name.endswith("loss") and name not in losses:
        yield (
            f"metric_for_best_model is {figure!r}, but {case} watch_grounding there is "
            f"{' and '.join(losses)}"
        )


def strategy_name(strategy: Any) -> str:
    """Return the text of a strategy, which may be one of transformers' enumeration."""
    return str(getattr(strategy, "value", strategy))


def _saves_each_evaluation(args: Any) -> bool:
    save, evaluate = strategy_name(args.save_strategy), strategy_name(args.eval_strategy)
    if save == evaluate == "steps":
        return not args.eval_steps % args.save_steps
    return save in (evaluate, "best")


def is_evaluated(args: Any) -> bool:
    """Return True if a run is evaluated while it trains."""
    return strategy_name(args.eval_strategy) != "no"


def bound_prompt_tokens(text: str) -> int:
    """Return an upper bound for a prompt's tokens: one per two characters beyond the paper's."""
    return MAX_PROMPT_TOKENS + max(0, len(text) - len(PAPER_PROMPT)) // 2


def _check_lengths(script: Any, args: Any) -> Iterator[str]:
    """Check that no image tokens are cut off, and that prompt and reply fit into vLLM."""
    if getattr(args, "max_length", None) is not None:
        yield f"max_length is {args.max_length}: an image's tokens would be cut off; set null"
    limit = getattr(args, "vllm_max_model_length", None)
    if not getattr(args, "use_vllm", False) or limit is None or script.max_pixels is None:
        return
    image = script.max_pixels // TOKEN_PIXELS
    text = bound_prompt_tokens(script.prompt_text)
    needed = image + text + args.max_completion_length
    if needed > limit:
        yield (
            f"vllm_max_model_length is {limit}, but a prompt has up to {image} tokens of an image "
            f"(max_pixels) and {text} of text, and a reply {args.max_completion_length} "
            f"(max_completion_length): set it to {needed} or more"
        )


def broken_deepspeed() -> str | None:
    """Describe a DeepSpeed that is installed and cannot be imported, as accelerate will."""
    broken = import_failure("deepspeed")
    return broken and (
        f"a DeepSpeed that can be imported ({broken}): the one installed ends also runs that "
        "do not use it; pip uninstall deepspeed, or install it again"
    )


def import_failure(package: str) -> str | None:
    """Return why an installed package cannot be imported; None if it can, or is not installed."""
    if find_spec(package) is None:
        return None
    try:
        import_module(package)
    except Exception as error:  # compiled parts and checks of the machine raise many kinds
        lines = str(error).strip().splitlines()
        return on_one_line(lines[0] if lines else type(error).__name__)
    return None


def check_rows(rows: int, args: Any, oversample: int = 1) -> None:
    """Raise ConfigError if a dataset has too few rows for one step.

    TRL leaves out a generation's incomplete last batch, and ``dataloader_drop_last`` any such
    batch, so such a run would make no step at all.
    """
    if hasattr(args, "generation_batch_size"):
        completions = oversample * args.generation_batch_size
        needed = completions // args.num_generations
        unit = f"different prompts ({completions} completions in groups of {args.num_generations})"
        remedy = "lower per_device_train_batch_size, or raise num_generations"
    else:
        needed, unit = 1, "rows"
        if args.dataloader_drop_last:
            needed = args.per_device_train_batch_size * args.world_size
        remedy = "set dataloader_drop_last: false"
    if rows < needed:
        raise ConfigError(
            f"the training split has {rows} rows, but a step takes {needed} {unit}, so no step "
            f"could be made: add rows, or {remedy}"
        )


def _check_reward(script: Any, args: Any) -> Iterator[str]:
    """Yield the errors that the reward, dynamic sampling and span credit would raise."""
    if not hasattr(script, "objective"):
        return

    def check_sampling() -> None:
        if script.oversample != 1:
            DynamicSampling(script.oversample, script.min_spread, script.refill)
            check_groups(args, args.num_generations)
        elif script.refill or script.min_spread != MIN_SPREAD:
            raise ConfigError(
                "refill and min_spread have no effect with oversample 1: set it to 2 or more, or "
                "leave them out"
            )

    def check_witness() -> None:
        if script.image_cap in (None, Guards().image_cap):
            return
        if "witness" not in read_metric_settings(script):
            raise ConfigError(
                f"image_cap is {script.image_cap:g}, but nothing looks at the image: set a "
                "witness in the metric's settings, or leave image_cap out"
            )

    def check_reader() -> None:
        if script.unmentioned_weight in (None, 1) or read_metric_settings(script).get("reader"):
            return
        raise ConfigError(
            f"unmentioned_weight is {script.unmentioned_weight:g}, but nothing tells what is "
            "unmentioned from what is contradicted: set a reader in the metric's settings, or "
            "leave unmentioned_weight out"
        )

    for check in (
        lambda: settle_aggregation(copy(args), build_shaping(script)),
        check_sampling,
        check_witness,
        check_reader,
        lambda: check_span_credit(script.span_credit, args),
        lambda: FailureLimit(script.max_failed_calls),
    ):
        try:
            check()
        except PoshError as error:
            yield str(error)


def read_metric_settings(script: Any) -> dict[str, Any]:
    """Return the metric's settings; empty for a recipe without a metric.

    Its store and its processes are left out: they belong to this machine, and change no score.
    """
    if not hasattr(script, "metric"):
        return {}
    settings = read_reward_metric(script.metric, **metric_flags(script))
    return {name: value for name, value in settings.items() if name not in ("store", "processes")}


def checks_judge(script: Any) -> bool:
    """Return False for a run that admits a judge whose grades mean nothing."""
    return bool(getattr(script, "check_judge", True))


def find_remarks(script: Any, args: Any, layout: Processes) -> Iterator[str]:
    """Yield notes on valid but probably unintended settings."""
    if not checks_judge(script):
        yield f"{NOT_CHECKED} (check_judge)"
    if getattr(args, "use_vllm", False):
        if args.top_p < 1 and args.vllm_importance_sampling_correction:
            yield (
                "top_p is below 1 and vllm_importance_sampling_correction is on: the loss of long "
                "descriptions shrinks towards 0 (huggingface/trl#6789); set it to false"
            )
        if script.max_pixels is None:
            yield "max_pixels is not set: a museum photograph costs thousands of tokens"
    if hasattr(args, "epsilon") and _is_on_policy(args):
        yield (
            "epsilon and epsilon_high have no effect: each batch updates the weights that "
            "generated it, so no probability has changed (num_iterations above 1, or "
            "steps_per_generation above gradient_accumulation_steps, would change that)"
        )
    if layout.processes > 1 and not layout.zero_stage:
        yield "every process has the whole model and its optimizer: no DeepSpeed"


def _is_on_policy(args: Any) -> bool:
    """Return True if each batch of generations is one optimizer step, so that ratios are exactly 1.

    TRL 1.16, grpo_trainer.py: without ``old_per_token_logps`` the ratio is of the log-probabilities
    to themselves, detached.
    """
    corrected = args.use_vllm and args.vllm_importance_sampling_correction
    generated = args.steps_per_generation * args.num_iterations
    return not corrected and args.gradient_accumulation_steps % generated == 0
