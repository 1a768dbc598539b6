"""SmolLM2-135M-Instruct, a real model: too small to judge, and so refused, but exact to compare.

``tools/real_weights.py`` writes its folder, which POSH_WEIGHTS names, and next to it a GGUF file
for the program that POSH_LLAMA_SERVER names; POSH_VLLM_PYTHON names an interpreter that has vLLM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from posh_reward import JudgeError, PoSh, PoshReward
from posh_reward.models.chat import Chat
from posh_reward.models.model import TOP_TOKENS, Prompt, label_masses, label_tokens, make_verdict
from posh_reward.models.packed import TransformersModel
from posh_reward.models.server import ServerModel
from posh_reward.models.server.server_http import PROMPT_TOO_LONG
from posh_reward.models.vllm import VllmModel
from posh_reward.posh.check import PROBES
from posh_reward.posh.judge import PromptJudge
from posh_reward.posh.load_judge import load_judge
from posh_reward.posh.wording import build_rewrite_prompt
from posh_reward.training.doctor.node_checks import free_port
from posh_reward.types import Phrase, Usage, Verdict
from tests.processes import alive

if TYPE_CHECKING:
    from transformers import PreTrainedModel

pytestmark = pytest.mark.weights

NAME = "served-model"
LABELS = ("1", "2", "3", "4", "5")
ASKED = [
    Prompt(f"DESCRIPTION: {text}\n\n", f'Q: Is "{word}" mentioned?\n\nRespond ONLY with 1-5.')
    for text in PROBES
    for word in ("the man", "ships", "a plum shawl")
]
PHRASES = [build_rewrite_prompt(Phrase(text, "attribute")) for text in ("plum shawl", "tall man")]
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n<think>\n"
)
"""A template that leaves the thought open, as Qwen3's does where its switch is ignored."""


def setting(name: str) -> Path:
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set: see the top of {Path(__file__).name}")
    return Path(value)


@pytest.fixture(scope="module")
def folder() -> Path:
    return setting("POSH_WEIGHTS").resolve()


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[PreTrainedModel, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    return model, AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def after_prompt(plain: tuple[PreTrainedModel, Any]) -> list[dict[int, float]]:
    """Log-probability of every token after each prompt, by a forward pass for each."""
    import torch

    model, tokenizer = plain
    with torch.inference_mode():
        rows = [model(torch.tensor([ids])).logits[0, -1] for ids in Chat(tokenizer).encode(ASKED)]
    return [dict(enumerate(row.double().log_softmax(-1).tolist())) for row in rows]


def masses(verdicts: Sequence[Verdict]) -> list[float]:
    return [p * each.mass for each in verdicts for p in each.probabilities or ()]


def expected(after: Sequence[dict[int, float]], tokenizer: Any) -> list[float]:
    tokens = label_tokens(tokenizer, LABELS)
    return masses([make_verdict(label_masses(row, tokens)) for row in after])


def twenty_likeliest(after: Sequence[dict[int, float]], tokenizer: Any) -> list[float]:
    tokens = label_tokens(tokenizer, LABELS, "top-20")
    best = [dict(sorted(row.items(), key=lambda item: -item[1])[:TOP_TOKENS]) for row in after]
    return masses([make_verdict(label_masses(row, tokens), "top-20") for row in best])


def engines() -> set[int]:
    """Process ids of the engines that this process has started, each under its keeper."""

    def children(parent: int) -> set[int]:
        tasks = Path(f"/proc/{parent}/task").glob("*/children")
        return {int(pid) for task in tasks for pid in task.read_text().split()}

    pids = {pid for keeper in children(os.getpid()) for pid in children(keeper)}
    return {p for p in pids if alive(p) and "boot.py" in Path(f"/proc/{p}/cmdline").read_text()}


def test_packed_prompts_get_the_answers_that_each_gets_alone(
    folder: Path, plain: tuple[PreTrainedModel, Any], after_prompt: list[dict[int, float]]
) -> None:
    found = masses(TransformersModel(str(folder)).choose(ASKED, LABELS))
    wanted = expected(after_prompt, plain[1])
    print(f"\nworst by {max(abs(a - b) for a, b in zip(found, wanted, strict=True)):.1e}")
    assert found == pytest.approx(wanted, abs=1e-5)


def test_packed_rewrites_are_greedy(folder: Path, plain: tuple[PreTrainedModel, Any]) -> None:
    import torch

    model, tokenizer = plain
    wanted = []
    for ids in Chat(tokenizer).encode(PHRASES):
        whole = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)
        wanted.append(tokenizer.decode(whole[0, len(ids) :], skip_special_tokens=True).strip())
    assert [reply.text for reply in TransformersModel(str(folder)).write(PHRASES, 12)] == wanted


@pytest.mark.parametrize("reading", ["labels", "top-20"])
def test_it_is_refused_as_a_judge(folder: Path, reading: str) -> None:
    judge = load_judge({"name": "transformers", "model": str(folder), "reading": reading})
    with pytest.raises(JudgeError, match=r"does not (answer with a grade|tell texts apart)") as why:
        PoshReward(PoSh(judge)).check()
    print("\n", why.value)


def test_a_thinking_template_is_refused(plain: tuple[PreTrainedModel, Any]) -> None:
    model, tokenizer = plain
    usual = tokenizer.chat_template
    tokenizer.chat_template = THINKING
    try:
        judge = PromptJudge(TransformersModel.of(model, tokenizer, "thinking", reading="top-20"))
        with pytest.raises(JudgeError, match=r"does not answer with a grade: in \d+%") as why:
            PoshReward(PoSh(judge)).check()
    finally:
        tokenizer.chat_template = usual
    print("\n", why.value, f"{judge.usage.doubtful} of {judge.usage.requests} doubtful")


def test_a_student_learns_to_answer_with_grades(folder: Path, tmp_path: Path) -> None:
    """Two minutes on an idle core. What it answers takes far longer: see research/LOG.md."""
    pytest.importorskip("trl")
    pytest.importorskip("pyarrow")
    from recipes import distill_judge
    from tests.recipes.test_distill import flags, questions

    questions(tmp_path / "questions", 1)
    steps = {"max_steps": 12, "eval_steps": 12, "save_steps": 12, "warmup_steps": 2}
    batch = {"per_device_train_batch_size": 1, "held_out_rows": 24, "learning_rate": 2e-4}
    given = flags(tmp_path, model_name_or_path=folder, eval_on_start=True, **steps, **batch)
    trainer = distill_judge.main(given)
    history = [line["eval_kl"] for line in trainer.state.log_history if "eval_kl" in line]
    print(f"\ndivergence {history[0]:.2f} before, {history[-1]:.2f} after")
    assert history[-1] < 0.8 * history[0]
    judge = tmp_path / "run" / "tiny-judge" / "judge.yaml"
    posh = PoSh(str(judge), preset="prefix-first")
    [scores] = posh.score([PROBES[0]], [PROBES[1]])
    assert scores.f1 is not None
    assert scores.doubtful_share < 0.1, "untrained, most of its replies are no grades"


@contextmanager
def answering(command: list[str], port: int, log: Path, seconds: int) -> Iterator[str]:
    """The address of a server, once it says that it works."""
    import httpx

    address = f"http://127.0.0.1:{port}"
    variables = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as file, subprocess.Popen(
        command, env=variables, stdout=file, stderr=file, start_new_session=True
    ) as process:  # fmt: skip
        try:
            for _ in range(seconds):
                if process.poll() is not None:
                    pytest.fail(f"the server does not start: {log.read_text()[-2000:]}")
                try:
                    if httpx.get(f"{address}/health", timeout=5).is_success:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(1)
            yield address
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


@contextmanager
def llama_server(folder: Path, log: Path, *options: str) -> Iterator[str]:
    """The address of a ``llama-server`` with one slot and the GGUF file."""
    port = free_port()
    command = [
        str(setting("POSH_LLAMA_SERVER")), "-m", str(folder.with_suffix(".gguf")), "--host",
        "127.0.0.1", "--port", str(port), "-c", "4096", "-np", "1", "-t", "1", *options,
    ]  # fmt: skip
    with answering(command, port, log, 120) as address:
        yield address


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(folder, tmp_path_factory.mktemp("llama") / "log") as found:
        yield found


def test_llama_servers_twenty_likeliest_are_the_models(
    address: str, plain: tuple[PreTrainedModel, Any], after_prompt: list[dict[int, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    judge: Any = load_judge(address)
    assert judge.name == "server:smollm2.gguf:top-20"
    with pytest.raises(JudgeError, match="POSH_UNCHECKED=1"):
        judge.model.wake()
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    found = masses(judge.model.choose(ASKED, LABELS))
    wanted = twenty_likeliest(after_prompt, plain[1])
    print(f"\nworst by {max(abs(a - b) for a, b in zip(found, wanted, strict=True)):.3f}")
    assert found == pytest.approx(wanted, abs=0.05), "llama.cpp computes in four and eight bits"


def test_llama_server_is_refused_for_labels(address: str) -> None:
    judge: Any = load_judge({"name": "server", "base_urls": [address], "reading": "labels"})
    with pytest.raises(JudgeError, match=r"does not report the tokens.*choose reading 'top-20'"):
        judge.model.wake()


def test_questions_that_wait_for_llama_servers_slot_do_not_time_out(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-four may be sent at once, and together they take longer than one timeout."""
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    began = time.monotonic()
    settings = {"name": "server", "base_urls": [address], "timeout": 12.0, "retries": 0}
    judge: Any = load_judge(settings)
    many = [Prompt(f"DESCRIPTION: {PROBES[0]} {i}\n\n", "Q: Is it?\n\n1-5.") for i in range(64)]
    verdicts = judge.model.choose(many, LABELS)
    print(f"\n64 questions in {time.monotonic() - began:.0f} s")
    assert [each.failure for each in verdicts] == [None] * 64


def test_llama_server_with_a_thinking_template_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "thinking.jinja").write_text(THINKING)
    options = ("--chat-template-file", str(tmp_path / "thinking.jinja"), "--jinja")
    refused = pytest.raises(JudgeError, match=r"does not answer with a grade.*--reasoning off")
    with llama_server(folder, tmp_path / "log", *options) as address, refused:
        PoshReward(PoSh(address)).check()


def child_of(python: str, folder: Path, **options: Any) -> VllmModel:
    usual = {"dtype": "float32", "memory_gb": 0.25, "max_model_len": 512, "enforce_eager": True}
    return VllmModel(str(folder), python=python, **{**usual, **options})


@pytest.fixture(scope="module")
def child(vllm_python: str, folder: Path) -> Iterator[VllmModel]:
    model = child_of(vllm_python, folder, timeout=60.0)
    yield model
    model.close()


LONG = Prompt("DESCRIPTION: " + "dog " * 600, "Q: Is it?")


def test_vllms_child_answers_as_a_plain_pass(
    child: VllmModel, folder: Path, plain: tuple[PreTrainedModel, Any],
    after_prompt: list[dict[int, float]],
) -> None:  # fmt: skip
    wanted = expected(after_prompt, plain[1])
    half_a_pair = Prompt("DESCRIPTION: \ud800", "Q: Is it?")
    for _ in range(2):  # the second time after a sleep
        *verdicts, too_long, half = child.choose([*ASKED, LONG, half_a_pair], LABELS)
        found = masses(verdicts)
        print(f"\nworst by {max(abs(a - b) for a, b in zip(found, wanted, strict=True)):.1e}")
        assert found == pytest.approx(wanted, abs=1e-4)
        assert str(too_long.failure).startswith("the prompt is longer than max_model_len, 512 tok")
        assert str(half.failure) == "the prompt cannot be tokenised"
        child.sleep()
        child.wake()
    replies = TransformersModel(str(folder)).write(PHRASES, 12)
    assert child.write(PHRASES, 12) == replies


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_batch_survives_vllms_death(child: VllmModel, how: signal.Signals) -> None:
    many = [p._replace(suffix=f"{p.suffix} {i}") for p in ASKED for i in range(10)]
    child.wake()
    [pid] = engines()
    blow = threading.Timer(0.5, os.kill, (pid, how))
    blow.start()
    began = time.monotonic()
    found = masses(child.choose(many, LABELS))
    print(f"\n{len(many)} prompts, {how.name} after 0.5 s: {time.monotonic() - began:.0f} s")
    assert engines() != {pid}
    assert found == pytest.approx(masses(child.choose(many, LABELS)), abs=1e-4)
    assert len(found) == len(many) * len(LABELS)


@pytest.mark.parametrize(
    ("options", "told"), [({"memory_gb": 1e6}, "memory"), ({"dtype": "float17"}, "float17")]
)
def test_vllms_settings_that_do_not_fit_are_named(
    vllm_python: str, folder: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(JudgeError, match=told):
        child_of(vllm_python, folder, **options).wake()


@contextmanager
def serving(python: str, folder: Path, log: Path) -> Iterator[str]:
    """The address of a ``vllm serve`` of the model in a folder."""
    port = free_port()
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
        "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "512", "--enforce-eager",
        "--generation-config", "vllm", "--enable-prompt-tokens-details", "--max-num-seqs", "16",
    ]  # fmt: skip
    with answering(command, port, log, 400) as address:
        yield address


@pytest.fixture(scope="module")
def vllm_server(
    vllm_python: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with serving(vllm_python, folder, tmp_path_factory.mktemp("vllm") / "log") as address:
        yield address


def test_vllm_serves_what_a_plain_pass_gives(
    vllm_server: str, plain: tuple[PreTrainedModel, Any], after_prompt: list[dict[int, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with pytest.raises(JudgeError, match=r"does not (answer with a grade|tell what is ment)") as no:
        ServerModel(vllm_server).wake()
    print("\n", no.value)
    monkeypatch.setenv("POSH_UNCHECKED", "1")
    server = ServerModel(vllm_server, reading="labels")
    *verdicts, too_long = server.choose([*ASKED, LONG], LABELS)
    wanted = expected(after_prompt, plain[1])
    found = masses(verdicts)
    print(f"labels, worst by {max(abs(a - b) for a, b in zip(found, wanted, strict=True)):.1e}")
    assert found == pytest.approx(wanted, abs=1e-4)
    assert str(too_long.failure) == PROMPT_TOO_LONG
    server.usage = Usage()
    shared = "DESCRIPTION: " + "A dog. " * 80
    server.choose([Prompt(shared, f"Q: Is {i}?") for i in range(8)], LABELS)
    assert 0 < server.usage.prompt_tokens_computed < server.usage.prompt_tokens_submitted / 2
    found = masses(ServerModel(vllm_server).choose(ASKED, LABELS))
    wanted = twenty_likeliest(after_prompt, plain[1])
    print(f"top-20, worst by {max(abs(a - b) for a, b in zip(found, wanted, strict=True)):.1e}")
    assert found == pytest.approx(wanted, abs=1e-4)
