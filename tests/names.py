"""Names in the checkout: modules and their members, programs and their flags, settings."""

import argparse
import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from posh_reward.cli import command_line
from tests.conftest import OPT_IN, flag
from tests.syntax import nodes, tree

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("posh_reward", "recipes", "tools", "research", "examples", "configs", "slurm", "docs")
FLAG = re.compile(r"(?<![\w\-<!{])--?[a-zA-Z]\w*(?:-\w+)*(?![\w/-])")
TRAINING = ("sft", "dapo_posh", "distill_judge")  # recipes that take TRL's flags, too


@cache
def files(*patterns: str) -> tuple[Path, ...]:
    """Files of the project, but not of its tests."""
    found = (path for each in FOLDERS for path in (ROOT / each).rglob("*"))
    matching = (path for path in found if any(path.match(pattern) for pattern in patterns))
    return tuple(sorted(path for path in matching if "__pycache__" not in path.parts))


# Modules.


def members(body: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Names that the statements of a module or class define or import."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inner = (each for target in targets for each in ast.walk(target))
            yield from ((each.id, node) for each in inner if isinstance(each, ast.Name))
        else:  # if, try
            for part in ("body", "handlers", "orelse"):
                yield from members(getattr(node, part, ()))


@cache
def module_file(name: str) -> Path | None:
    """The file of a module; of a folder without ``__init__.py``, the folder."""
    path = ROOT / name.replace(".", "/")
    candidates = (path / "__init__.py", path.with_suffix(".py"), path)
    return next((each for each in candidates if each.exists()), None)


@cache
def defined(file: Path) -> dict[str, ast.AST]:
    return dict(members(tree(file).body))


@cache
def exists(dotted: str) -> bool:
    """True if this is a module of ours, a name that one defines or imports, or a class's member."""
    module, names = dotted, list[str]()
    while (file := module_file(module)) is None:
        module, dot, name = module.rpartition(".")
        if not dot:
            return False
        names.insert(0, name)
    if not names or file.is_dir():
        return not names
    if module == "posh_reward":
        return names[0] in import_module(module).__all__
    found = defined(file).get(names[0])
    if isinstance(found, ast.ClassDef) and names[1:]:
        return names[1] in dict(members(found.body))
    return found is not None


@cache
def modules() -> dict[str, set[str]]:
    """Last word of a module's name -> the whole names."""
    found: dict[str, set[str]] = {}
    for file in files("*.py"):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found.setdefault(name.rpartition(".")[2], set()).add(name)
    return found


# Programs.


def options(parser: argparse.ArgumentParser) -> set[str]:
    return set(parser._option_string_actions)


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, set[str]]]:
    """Each command, and the commands below it, with its flags."""
    yield name, options(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from commands(command, f"{name} {word}")


@cache
def programs() -> dict[str, set[str]]:
    """``posh-reward packets make``, ``recipes/sft.py`` ... -> its flags, with TRL's."""
    from accelerate.commands.launch import launch_command_parser

    from posh_reward.training import run_settings

    found = dict(commands(command_line(), "posh-reward"))
    for file in files("recipes/*.py", "recipes/demo/*.py"):
        flags = {text for text in literals(file) if FLAG.fullmatch(text)}
        found[file.relative_to(ROOT).as_posix()] = flags
    own = {
        run_settings.CHECK_FLAG,
        run_settings.ALL_HELP_FLAG,
        *run_settings.TRUST_FLAGS,
        "--config",
    }
    for name in TRAINING:
        kinds = import_module(f"recipes.{name}").SETTINGS
        found[f"recipes/{name}.py"] = own | options(run_settings.SettingsParser(kinds))
    found["recipes/make_packets.py"] = found["posh-reward packets make"]
    found["accelerate launch"] = options(launch_command_parser())
    found["pytest"] = {*map(flag, OPT_IN)}
    return found


# Settings.


def literals(file: Path) -> Iterator[str]:
    """Texts in a file's code; what is put into one becomes ``{}``."""
    parts = {id(part) for node in nodes(file) if isinstance(node, ast.JoinedStr)
             for part in node.values}  # fmt: skip
    for node in nodes(file):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            inner = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, inner))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def words() -> set[str]:
    """Names to set, call or read: arguments, fields, functions, flags, columns, variables.

    Also other packages' arguments and attributes that our code uses.
    """
    found = {path.stem for path in files("*")}
    for file in (*files("*.sh"), *ROOT.glob("tests/**/*.py")):
        pattern = r"\$\{?(\w+)" if file.suffix == ".sh" else r"\b(POSH_\w+)"
        found |= set(re.findall(pattern, file.read_text(encoding="utf-8")))
    for flags in programs().values():
        found |= {each.lstrip("-").replace("-", "_") for each in flags}
    for file in files("*.py"):
        found |= {name for name, _ in members(tree(file).body)}
        found |= {text for text in literals(file) if text.isidentifier()}
        for node in nodes(file):
            if isinstance(node, ast.arg | ast.keyword):
                found.add(str(node.arg))
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found |= {name for name, _ in members([node, *node.body])}
    return found


@cache
def extras() -> set[str]:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return set(re.findall(r"(?m)^(\w+) = \[", table))


@cache
def names_of_tests() -> set[str]:
    """Their functions, and their files without the ending."""
    paths = tuple(ROOT.glob("tests/**/test_*.py"))
    found = (re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")) for path in paths)
    return {path.stem for path in paths}.union(*found)
