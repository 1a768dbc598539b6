"""A settings file is somebody's typing: whatever it holds, the worst is a message that helps."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import ConfigError, PoSh
from posh_reward.adapters.completion_results import reward_of
from posh_reward.cli import EXIT_UNUSABLE, main
from posh_reward.models.model import load_model
from posh_reward.settings import TRUST_VARIABLE, check_settings, read_settings, validate_safety
from posh_reward.shipped import shipped_path

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A "billion laughs": nine lines, and 387 million values as text."""


def read(folder: Path, name: str, text: str) -> dict[str, Any]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_settings(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[" * 10_000, "a.json is not valid JSON: .*nested too deeply"),
        ("a.yaml", "[" * 10_000, "a.yaml is not valid YAML: .*nested too deeply"),
        ("a.yaml", "a: {b: " * 10_000, "a.yaml is not valid YAML"),
        ("a.yaml", "a: " + "- " * 10_000, "a.yaml is not valid YAML"),
        ("a.yaml", BOMB, r"a.yaml: aliases \(\*name\) are not supported: write the value out"),
        ("a.yaml", "a: &a [*a]", "aliases"),
        ("a.yaml", "a: &a {b: 1}\nc:\n  <<: *a", "aliases"),
        ("a.yaml", "model: a\nmodel: b", "a.yaml: 'model' is set twice"),
        ("a.yaml", "extra_body: {a: {b: 1, b: 2}}", "'b' is set twice"),
        ("a.json", '{"model": "a", "model": "b"}', "a.json: 'model' is set twice"),
        ("a.json", '{"a": [{"b": 1, "b": 2}]}', "'b' is set twice"),
        ("a.yaml", 'a: !!int ""', "not valid YAML"),
        ("a.yaml", "a: !!bool maybe", "not valid YAML"),
        ("a.yaml", "a: !!timestamp soon", "not valid YAML"),
        ("a.yaml", "a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("a.json", '{"a": ' + "1" * 5000 + "}", "not valid JSON"),
        ("a.yaml", "- a", "a.yaml is not a mapping: write lines of `setting: value`"),
        ("a.yaml", "1: a", "a.yaml is not a mapping"),
        ("a.yaml", "", "a.yaml is not a mapping"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError, match=message) as raised:
        read(tmp_path, name, text)
    assert time.process_time() - began < 5
    assert len(str(raised.value)) < 500


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: .*none\.yaml"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(Path("nul\0.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "latin.yaml")


@given(st.text("{}[]:,*&!<>|'\"\n -ab1", max_size=40))
def test_any_text_is_a_mapping_or_a_typed_error(tmp_path_factory: Any, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name in ("any.yaml", "any.json"):
        try:
            settings = read(folder, name, text)
        except ConfigError:
            continue
        assert all(isinstance(each, str) for each in settings)


def take(
    *, whole: int = 1, real: float = 1.0, maybe: float | None = None, flag: bool = True,
    word: str = "", words: str | Sequence[str] = "", table: Mapping[str, Any] | None = None,
    choice: Literal["labels", "top-20"] = "labels",
) -> None:  # fmt: skip
    """Has every kind of argument that settings are checked against."""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("whole", 1.5, "whole is 1.5: use a whole number"),
        ("real", "5e-1", "real is '5e-1': use a number"),
        ("maybe", "x", "use a number"),
        ("flag", "no", "use true or false"),
        ("word", 7, "word is 7: use a text"),
        ("words", 5, "words is 5: use a text or use a list"),
        ("table", "x", "table is 'x': use a mapping"),
        ("choice", "top", "choice is 'top': .*'labels' or 'top-20'"),
        ("wrod", "x", r"there is no setting 'wrod' \(did you mean 'word'\?\)"),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"judge: .*{message}"):
        check_settings(take, {name: value}, "judge")


ran: list[object] = []  # what a hostile file got to run


def hostile_encoder(texts: list[str]) -> list[list[float]]:
    ran.append(texts)
    return [[1.0] for _ in texts]


SERVER = {"name": "server", "base_urls": "http://evil.example/v1", "model": "m"}
HERE = SERVER | {"base_urls": "http://localhost:8000/v1"}
JUDGES: dict[str, dict[str, Any]] = {
    "python": {"name": "vllm", "model": ".", "python": "./evil.sh"},
    "encoder": {"name": "embedded", "encoder": "tests.test_settings:hostile_encoder"},
    "api_key_env": {**HERE, "api_key_env": "AWS_SECRET_ACCESS_KEY"},
    "base_urls": SERVER,
}
"""Setting -> a judge's settings with a harmful value."""


@pytest.fixture(autouse=True)
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)
    monkeypatch.setenv("POSH_JUDGE_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sk-secret")
    script = tmp_path / "evil.sh"
    script.write_text("#!/bin/sh\ntouch pwned\n")
    script.chmod(0o755)
    row = {"generation": "A dog.", "reference": "A dog sleeps.", "better": 1}
    Path("pairs.jsonl").write_text(json.dumps(row) + "\n")
    ran.clear()


def harmless() -> bool:
    return not Path("pwned").exists() and not ran


COMMANDS = {
    "score": "score pairs.jsonl --metric metric.json",
    "score, judge": "score pairs.jsonl --judge judge.yaml",
    "score, the judge's file in a metric's": "score pairs.jsonl --metric nested.yaml",
    "score, a cascade": "score pairs.jsonl --judge cascade.yaml",
    "score, a witness": "score pairs.jsonl --witness judge.yaml",
    "explain": "explain a b --metric metric.json",
    "agreement": "agreement pairs pairs.jsonl --judge judge.yaml --generation1 generation "
    "--generation2 generation --label overall=better",
    "judges compare": "judges compare pairs.jsonl --judges fake judge.yaml",
    "judges compare, a metric": "judges compare pairs.jsonl --judges fake metric.json",
    "judges collect": "judges collect pairs.jsonl --judge judge.yaml -o q",
    "harmonic": "harmonic score pairs.jsonl --judge judge.yaml",
    "rubric": "rubric score pairs.jsonl --judge judge.yaml",
    "prove score": "prove score pairs.jsonl --entailment-judge judge.yaml",
    "prove make": "prove make pairs.jsonl -o p.jsonl --writer judge.yaml --caption reference",
    "attack": "attack pairs.jsonl -o a --reward reward.json",
    "serve": "serve --port 0 --reward reward.json",
    "fetch": "fetch --config judge.yaml",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("setting", JUDGES)
def test_a_strangers_file_neither_runs_nor_sends_anything(
    setting: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = JUDGES[setting]
    Path("judge.yaml").write_text(yaml.safe_dump(judge))
    Path("cascade.yaml").write_text("name: cascade\njudge: judge.yaml\n")
    Path("nested.yaml").write_text("judge: judge.yaml\n")
    Path("metric.json").write_text(json.dumps({"judge": judge}))
    Path("reward.json").write_text(json.dumps({"metric": {"judge": judge}}))
    assert main(command.split()) == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert f"{setting} is " in said
    assert "only with --trust-settings, if you trust whoever wrote it" in said
    assert harmless()


def test_a_key_goes_where_its_owner_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Path("judge.yaml")
    theirs.write_text(yaml.safe_dump(SERVER | {"api_key_env": "OPENAI_API_KEY"}))
    with pytest.raises(ConfigError, match=r"it sends the key in OPENAI_API_KEY to evil.example"):
        load_model(str(theirs))
    with monkeypatch.context() as there:
        there.delenv("OPENAI_API_KEY")
        assert "evil.example" in repr(load_model(str(theirs))), "there is no key to send"
    for local in ("http://localhost:8000/v1", ["http://127.0.0.1:1", "http://[::1]:8000/v1"]):
        theirs.write_text(yaml.safe_dump(SERVER | {"base_urls": local}))
        load_model(str(theirs))
    for remote in ("http://127.0.0.1@evil.example", "http://localhost.evil.example", "//["):
        with pytest.raises(ConfigError, match="it sends the key"):
            validate_safety({"base_urls": ["http://localhost:1", remote]}, "judge.yaml")
    with pytest.raises(ConfigError, match="it sends the key"):
        validate_safety({"judge": "https://evil.example"}, "metric.yaml")
    assert "evil" in repr(load_model(SERVER)), "made in Python"


def test_who_trusts_a_file_gets_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    Path("judge.yaml").write_text(yaml.safe_dump(JUDGES["python"]))
    command = ["score", "pairs.jsonl", "--judge", "judge.yaml", "--trust-settings"]
    try:
        assert main(command) != 0
    finally:
        assert os.environ.pop(TRUST_VARIABLE) == "1"
    assert Path("pwned").exists(), "the script ran as an interpreter"
    assert "trust" not in capsys.readouterr().err


RECIPES = {
    "env": {"env": {"LD_PRELOAD": "evil.so"}},
    "trust_remote_code": {"trust_remote_code": True},
    "model_init_kwargs": {"model_init_kwargs": {"trust_remote_code": True}},
    "weights as pickles": {"model_init_kwargs": {"weights_only": False}},
    "kernels": {"model_init_kwargs": '{"use_kernels": true}'},
    "a mapping in JSON": {"model_init_kwargs": ' {"trust_remote_code": true}'},
    "attn_implementation": {"attn_implementation": "evil/kernel"},
    "push_to_hub": {"push_to_hub": True},
    "hub_token": {"hub_token": "hf_theirs"},
    "log_completions_hub_repo": {"log_completions_hub_repo": "evil/log"},
    "trackio_space_id": {"trackio_space_id": "evil/log"},
    "trackio_bucket_id": {"trackio_bucket_id": "evil/log"},
}


@pytest.mark.parametrize("setting", RECIPES)
def test_a_strangers_recipe_only_sets_numbers_and_names(setting: str) -> None:
    pytest.importorskip("trl")
    from posh_reward.training.launch import parse_settings
    from recipes.sft import SETTINGS

    Path("base.yaml").write_text(yaml.safe_dump(RECIPES[setting]))
    Path("theirs.yaml").write_text("like: base.yaml\nlearning_rate: 1e-5\n")
    before = dict(os.environ)
    with pytest.raises(ConfigError, match="only with --trust-settings"):
        parse_settings(SETTINGS, ["--config", "theirs.yaml", "--output_dir", "out"])
    assert dict(os.environ) == before


def test_files_that_only_have_data_are_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that ship; a launcher's, and a reward's that a trainer's settings name."""
    files = [path for path in shipped_path("configs").rglob("*.yaml") if path.name != "node.yaml"]
    assert len(files) > 10
    for path in files:
        read_settings(path)
    Path("reward.yaml").write_text(yaml.safe_dump({"metric": {"judge": JUDGES["encoder"]}}))
    with pytest.raises(ConfigError, match="encoder"):
        reward_of("reward.yaml")
    with pytest.raises(ConfigError, match="python"):
        PoSh(judge=_written(JUDGES["python"]))
    assert harmless()


def _written(judge: dict[str, Any]) -> str:
    Path("judge.json").write_text(json.dumps(judge))
    return "judge.json"
