"""A settings file is somebody's typing: whatever it holds, the worst is a message that helps."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posh_reward import ConfigError
from posh_reward.settings import check_settings, read_settings

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
    *,
    whole: int = 1,
    real: float = 1.0,
    maybe: float | None = None,
    flag: bool = True,
    word: str = "",
    words: str | Sequence[str] = "",
    table: Mapping[str, Any] | None = None,
    choice: Literal["labels", "top-20"] = "labels",
) -> None:
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
