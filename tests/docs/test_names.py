"""Every name that a page, a comment or a message gives to the reader exists.

Not read are tests, which make names up, and what was: change log, log and results of research.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

import posh_reward
from posh_reward.reward.completion_log import DETAIL_COLUMNS, ROW_COLUMNS
from tests import names
from tests.names import FLAG, ROOT, exists, files, literals
from tests.syntax import nodes

PAGES = (*(ROOT / each for each in ("README.md", "CONTRIBUTING.md", "data/README.md",
           "research/results/faults.md")), *files("docs/*.md"))  # fmt: skip
OURS = "posh_reward|recipes|examples|tools|research|tests"
CODE = tuple(path for path in files("*.py") if not {"tools", "research"} & {*path.parts})
ALL = (*PAGES, *(ROOT / each for each in ("pyproject.toml", "Makefile", "Containerfile")),
       *files("*.py", "*.yaml", "*.sh", "*.ipynb"))  # fmt: skip
OURS_ALONE = tuple(path for path in (*PAGES, *CODE) if "adapters" not in str(path))
"""Without what also names other trainers' files and settings."""
MAX_PARENTHESES = 20  # closed within a call
OTHERS = set(
    # Slurm's, Docker's and nvidia-smi's
    "--array --dependency --gpus-per-node --mem --nodes --parsable --requeue --signal --time "
    "--container-image --container-mounts --ipc --shm-size --compute-mode "
    # servers of models, and Caddy's
    "--ctx-size --data-parallel-size --default-chat-template-kwargs --enable-prompt-tokens-details "
    "--alias --generation-config --logprobs-mode --max-model-len --reasoning "
    "--served-model-name --from --to "
    # other trainers', and ``trl grpo``
    "--custom-config-path --custom-reward-post-process-path --custom-rm-path --external_plugins "
    "--group-rm --resources-server --reward --reward-key --reward_funcs --rlhf_type --rm-type "
    "--rm-url --runtime".split()
)
"""Flags of programs that are not ours."""
THEIR_VARIABLES = r"(?:CUDA|GLOO|HF|NCCL|PIP|SBATCH|SSL|VERL|VLLM|WANDB)_|[A-Z]+_PROXY"
OBJECTS = {"reward", "sandbox", "score", "trace", "trainer"}
"""Variables of examples that have the names of our modules."""
THEIRS = {
    "accepts_loss_kwargs", "autocast_adapter_dtype", "fsdp2_prepare_model", "get_last_checkpoint",
    "smart_resize", "split_special_tokens",  # transformers', accelerate's and PEFT's
    "file_name", "save_to_disk",  # of datasets
    "fn_constructor_kwargs", "remote_rm",  # of trainers that ask our server
    "en_core_web_trf", "https_proxy", "no_proxy",
    "posh_failure", *(f"posh_{name}" for name in (*ROW_COLUMNS, *DETAIL_COLUMNS)),  # made of parts
}  # fmt: skip
"""Words of others, with which users meet ours."""


@cache
def said(path: Path) -> tuple[str, ...]:
    """The text of a page or settings file; of code the comments and what has words in it."""
    text = path.read_text(encoding="utf-8")
    texts = [text]
    if path.suffix == ".ipynb":
        texts = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    elif path.suffix == ".py":
        texts = [*(each for each in literals(path) if " " in each), *re.findall("#.*", text)]
    return tuple(re.sub(r"\\\n\s*#?", " ", each) for each in texts)


# A match of each kind of name -> whether there is such a thing.


def is_defined(match: re.Match[str]) -> bool:
    return exists(match[0].replace(":", "."))


def can_be_imported(match: re.Match[str]) -> bool:
    imported = re.findall(r"\w+", re.sub(r"#.*|\bas \w+", "", match[2]))
    return all(exists(f"{match[1]}.{name}") for name in imported)


def is_in_some_module(match: re.Match[str]) -> bool:
    """``launch.train``: a module is called so and has it; or no module is called so."""
    first, *rest = match[1].split(".")
    known = names.modules().get(first)
    if known is None or first in OBJECTS:
        return not rest[-1].isupper()
    return any(exists(".".join((each, *rest))) for each in known)


def is_file(match: re.Match[str]) -> bool:
    return (ROOT / match[0]).exists() or "NAME" in match[0]


def is_test(match: re.Match[str]) -> bool:
    return match[0] in names.names_of_tests()


def takes_its_arguments(match: re.Match[str]) -> bool:
    """The keyword arguments of a call are in the signature."""
    text = match.string[match.start() :]
    for end in islice(re.finditer(r"\)", text), MAX_PARENTHESES):
        try:
            call = ast.parse(text[: end.end()], mode="eval").body
        except SyntaxError:  # another call's end, or prose
            continue
        # load_metric takes "arguments of PoSh".
        function = posh_reward.PoSh if match[1] == "load_metric" else getattr(posh_reward, match[1])
        given = [] if not isinstance(call, ast.Call) else [each.arg for each in call.keywords]
        return set(given) <= {None, *inspect.signature(function).parameters}
    return True


def takes_its_flags(match: re.Match[str]) -> bool:
    """The flags in a line are those of the command at its beginning, which exists."""
    name, words = match[1] or match[2], re.findall(r"[\w-]+", match[3])
    while words and f"{name} {words[0]}" in names.programs():
        name = f"{name} {words.pop(0)}"
    is_group = any(each.startswith(f"{name} ") for each in names.programs())
    if is_group and words and words[0].islower() and not words[0].startswith("-"):
        return False
    return set(FLAG.findall(match[3])) <= names.programs().get(name, set())


def is_some_flag(match: re.Match[str]) -> bool:
    return match[0] in OTHERS or any(match[0] in flags for flags in names.programs().values())


def are_extras(match: re.Match[str]) -> bool:
    return names.extras() >= set(match[1].split(","))


def is_target(match: re.Match[str]) -> bool:
    return f"\n{match[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def is_word(match: re.Match[str]) -> bool:
    return (match[1] or match[2]) in names.words() | THEIRS


@dataclass(frozen=True)
class Kind:
    pattern: str
    right: Callable[[re.Match[str]], bool]
    paths: tuple[Path, ...]
    stale: str
    """A text that names nothing."""

    def wrong(self, text: str) -> list[str]:
        return [each[0] for each in re.finditer(self.pattern, text) if not self.right(each)]


KINDS = {
    "module or name in it": Kind(
        rf"(?<![\w./@-])(?:{OURS})(?:\.\w+)+(?::\w+)?", is_defined, ALL,
        "posh_reward.reward.trl:PoshPenalty",
    ),
    "import": Kind(
        rf"from ((?:{OURS})[\w.]*) import (\([^)]*\)|[\w, ]+)", can_be_imported, ALL,
        "from posh_reward import PoSh, load_penalty",
    ),
    "name in a module without its folders": Kind(
        r"`((?!\w+\.(?:py|js|txt|yaml))[a-z]\w*(?:\.\w+)+)(?=[`(])", is_in_some_module,
        (*PAGES, *CODE), "`questions.PRESERVE`",
    ),
    "argument": Kind(
        rf"(?<![\w.])({'|'.join(posh_reward.__all__)})\((?=[^)])", takes_its_arguments, ALL,
        "PoshReward(penalty=Shaping(length_limit=3))",
    ),
    "test": Kind(r"(?<![\w/])test_\w+", is_test, (*PAGES, *CODE), "test_penalties.py"),
    "variable": Kind(
        rf"(?m)(?:[`$]|^ +)(?!{THEIR_VARIABLES})([A-Z]+(?:_[A-Z0-9]+)+)(?=[`=])|\b(POSH_[A-Z_]+)",
        is_word, (*PAGES, *CODE), "`JUDGE_PENALTY=1`",
    ),
    "file": Kind(
        rf"(?<![\w./$}}-])(?:{OURS}|docs|configs|slurm|data)/[\w./-]+\.[a-z]+\b", is_file, ALL,
        "see (docs/penalties.md)",
    ),
    "command": Kind(
        r"(?m)(?:(?:`|\brun |(?!\A)^ *)(posh-reward)(?= [a-z])|(?<![\w./-])(recipes/\w+\.py))"
        r"([^\n`|;&#]*)", takes_its_flags, ALL, "`posh-reward prove score a.csv --by-type`",
    ),
    "flag": Kind(
        FLAG.pattern.replace("--?", "--"), is_some_flag, (*PAGES, *CODE, *files("*.yaml")),
        "pass --by-type",
    ),
    "extra": Kind(
        r"(?:posh[-_]reward|\.)\[([a-z,]+)\]", are_extras, ALL, "pip install '.[penalties]'",
    ),
    "target of make": Kind(
        r"(?m)(?:`|^)make ([a-z-]+)(?=`| +#|$)", is_target, (*PAGES, *CODE), "`make penalties`",
    ),
    "setting": Kind(
        r"`(?!test_)([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?=[`:= (])()", is_word, OURS_ALONE,
        "`max_penalty: 3`",
    ),
    "remedy": Kind(
        r"\b(?:set|remove|lower|raise|choose|pass|give|use|add|with|without|see|call|name|needs|or|and)"
        r" ([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b(?![./])()", is_word, CODE, "set max_penalty",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_name_is_that_of_something(kind: str) -> None:
    which = KINDS[kind]
    assert which.wrong(which.stale), "the test would notice"
    found = {
        f"{path.relative_to(ROOT)}: {each}"
        for path in which.paths
        for text in said(path)
        for each in which.wrong(text)
    }
    assert sorted(found) == []


def test_each_extra_that_a_message_installs_is_one() -> None:
    calls = (node for path in CODE for node in nodes(path) if isinstance(node, ast.Call))
    texts = (node.args[0] for node in calls if getattr(node.func, "id", "") == "install_command")
    found = {text.value for text in texts if isinstance(text, ast.Constant)}
    assert len(found) > 3
    assert found <= names.extras()
