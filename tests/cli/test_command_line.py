"""The parser: one command's flags at a time, and one list of the metric's settings."""

import subprocess
import sys
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest

from posh_reward.cli import EXIT_JUDGE_FAILED, EXIT_OK, EXIT_UNUSABLE, command_line, main
from tests.cli.running import run


def test_a_command_loads_its_own_parser_alone() -> None:
    code = (
        "import sys; from posh_reward.cli import command_line; command_line(['score', '--help']);"
        "loaded = [m for m in sys.modules if m.startswith('posh_reward.cli.')];"
        "assert {m.rpartition('.')[2] for m in loaded} == {'options', 'score_command'}, loaded;"
        "assert not {'spacy', 'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_flag_means_the_same_in_every_command() -> None:
    """Test for a value, and for a column as the value; ``explain`` has no table."""
    meanings: dict[str, set[tuple[bool, bool]]] = {}
    for command, action in flags_of(command_line()):
        for name in action.option_strings if not command.endswith(" explain") else ():
            meaning = (action.nargs == 0, action.metavar == "COLUMN")
            meanings.setdefault(name, set()).add(meaning)
    assert {name for name, each in meanings.items() if len(each) > 1} == set()
    assert not [name for name in meanings if "_" in name]


def flags_of(parser: ArgumentParser) -> Iterator[tuple[str, Action]]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from flags_of(each)
        else:
            yield parser.prog, action


@pytest.mark.parametrize("command", ["score", "packets read"])
def test_an_unknown_flag_is_answered_with_the_most_similar_one(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "a", "b", "--outptu=x" if command == "score" else "--jsn"])
    similar = "--output" if command == "score" else "--json"
    said = capsys.readouterr().err
    assert f"(did you mean {similar!r}?) (flags: posh-reward {command} --help)" in said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("scroe pairs.csv", "COMMAND: 'scroe' (did you mean 'score'?) is none of score, explain"),
        ("judges comapre x", "COMMAND: 'comapre' (did you mean 'compare'?) is none of compare"),
        ("score x --format CVS", "--format: 'CVS' (did you mean 'csv'?) is none of jsonl, csv"),
    ],
)
def test_an_unknown_choice_is_answered_with_the_most_similar_one(
    words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == EXIT_UNUSABLE
    said = capsys.readouterr().err
    assert hint in said
    assert said.count("\n") == 1


def test_every_help_fits_a_screen_and_names_every_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 columns, 50 lines; the flags that are only listed are explained by ``--help-all``."""
    monkeypatch.setenv("COLUMNS", "100")
    for parser in parsers_of(command_line()):
        lines = parser.format_help().split("\n")
        assert len(lines) <= 51, parser.prog
        for action in parser._actions:
            if action.help != SUPPRESS:
                assert not action.option_strings or action.option_strings[-1] in "\n".join(lines)


def test_all_flags_are_explained_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    for flag, explained in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit, match="0"):
            main(["score", flag])
        said = capsys.readouterr().out
        assert "--unchecked" in said
        assert ("fails its first check" in said) is explained
        assert ("posh-reward score --help-all also explains" in said) is not explained


def test_a_narrow_terminal_gets_filled_paragraphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for parser in parsers_of(command_line()):
        wide = [line for line in parser.format_help().split("\n") if len(line) > 80]
        assert [line for line in wide if not line.startswith("  posh-reward")] == []


def parsers_of(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from parsers_of(each)


@pytest.mark.parametrize("words", [[], ["packets"], ["judges"], ["prove"]])
def test_a_group_alone_prints_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == EXIT_OK
    assert capsys.readouterr().out.startswith(" ".join(["usage: posh-reward", *words, "COMMAND"]))


def test_a_flag_wins_over_the_configuration_file(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "metric.yaml"
    config.write_text("judge: nobody\npreset: paper\nweights: {relation: 0.5}\n")
    assert run("score", table, "--metric", config) == EXIT_OK
    assert "posh|preset:paper|judge:fake" in (said := capsys.readouterr().err)
    assert "weights:1,1,0.5" in said
    assert main(["score", str(table), "--metric", str(config)]) == EXIT_UNUSABLE
    assert "no judge 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("jugde: fake", "no setting 'jugde' (did you mean 'judge'?): choose among judge, parser"),
        ("judge: [fake]", "judge is ['fake']: pass a name"),
        ("weights: {entity: -1}", "the weight of entity is -1: use a number from 0"),
        ("pairs_at_once: true", "pairs_at_once is True: use a whole number"),
    ],
)
def test_a_bad_setting_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, why: str
) -> None:
    (tmp_path / "m.yaml").write_text(content)
    assert main(["score", str(table), "--metric", str(tmp_path / "m.yaml")]) == EXIT_UNUSABLE
    assert why in capsys.readouterr().err


def test_a_reader_from_the_working_directory_is_checked_first(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_reader.py").write_text(
        "def right(pairs):\n"
        "    return [[0, 0, 1] if {'not', 'No'} & set(said.split()) else [1, 0, 0]\n"
        "            for _, said in pairs]\n"
        "def swapped(pairs):\n"
        "    return [row[::-1] for row in right(pairs)]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run("score", table, "--reader", "my_reader:right") == EXIT_OK
    assert "my_reader:right" in capsys.readouterr().err
    assert main(["score", str(table), "--reader", "my_reader:swapped"]) == EXIT_JUDGE_FAILED
    assert "does not tell a sentence from its negation" in capsys.readouterr().err
    assert run("score", table, "--reader", "none") == EXIT_OK
    assert "reader:" not in capsys.readouterr().err
