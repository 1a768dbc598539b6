"""The language of programs: one function over a scene graph, in a small subset of Python.

A program can read the graph, loop, compare, and build texts and lists. It has no imports, no
attributes except listed methods, no names except its own and a few harmless builtins, and none of
the operators that let a short program run forever.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypedDict

MAX_PROGRAM_CHARACTERS = 4000
MAX_TREE_NODES = 800  # of the syntax tree; the paper's examples have about fifty
MAX_TREE_LEVELS = 30
MAX_COMPREHENSION_LOOPS = 2
MAX_PROGRAM_NUMBER = 1_000_000

ALLOWED_BUILTINS = (
    *"len sorted list set tuple dict str int bool any all sum min max".split(),
    *"enumerate zip range next iter reversed isinstance".split(),
)
"""Builtins that a program may use."""
ALLOWED_METHODS = frozenset(
    (
        *"get_entities get_attributes get_outgoing_relations get_incoming_relations".split(),
        *"generate_subgraph describe".split(),  # the scene graph (paper, Listing 1)
        *"get_attrs get_outgoing_rels get_incoming_rels subgraph".split(),  # and in its Fig. 3
        *"lower upper strip split startswith endswith join replace title capitalize".split(),
        *"get items keys values append extend add union intersection difference".split(),
        *"count index copy".split(),
    )
)
"""Methods that a program may call. ``format`` is not one: its texts can reach attributes."""
ALLOWED_KEYWORDS = ("key", "reverse", "default", "start")  # keyword arguments allowed in calls

EXPRESSIONS = (
    *(ast.Constant, ast.Name, ast.Load, ast.Store, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.IfExp, ast.Lambda),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub),
    *(ast.Compare, ast.cmpop, ast.JoinedStr, ast.FormattedValue, ast.comprehension),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
STATEMENTS = (
    *(ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.If, ast.For, ast.Assign),
    *(ast.AugAssign, ast.Expr, ast.Pass, ast.Break, ast.Continue),
)
ALLOWED_SYNTAX = EXPRESSIONS + STATEMENTS
"""Allowed syntax. Left out on purpose: ``while``, ``try``, ``import``, and operators with which one
line can fill the memory: ``*``, ``**``, ``<<`` and ``%``."""


def describe_violation(program: str) -> str | None:
    """Describe the first violation in a program; None if it may run."""
    if len(program) > MAX_PROGRAM_CHARACTERS:
        return f"it is longer than {MAX_PROGRAM_CHARACTERS:,} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_program(program)
    # The last two come from thousands of brackets or signs in a row.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is not Python: {type(error).__name__}"
    if len(list(ast.walk(tree))) > MAX_TREE_NODES or _is_too_deep(tree):
        return "it is too large or too deeply nested"
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        content = ", ".join(type(node).__name__ for node in tree.body[:3])
        return f"it is not one function, but {content or 'empty'}"
    return next(_find_violations(tree.body[0]), None)


def _is_too_deep(tree: ast.AST) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(MAX_TREE_LEVELS):
        level = list(chain.from_iterable(map(ast.iter_child_nodes, level)))
    return bool(level)


def _find_violations(function: ast.FunctionDef) -> Iterator[str]:
    if len(function.args.args) != 1 or function.decorator_list:
        yield "it does not take the scene graph as its one argument"
    names = {*_find_own_names(function), *ALLOWED_BUILTINS}
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    for node in ast.walk(function):
        inner = isinstance(node, ast.FunctionDef) and node is not function
        if not isinstance(node, ALLOWED_SYNTAX) or inner:
            yield f"it uses {type(node).__name__}, which is not allowed"
        elif isinstance(node, ast.Name) and (node.id not in names or node.id.startswith("_")):
            yield f"it uses the name {node.id}"
        elif isinstance(node, ast.Attribute) and not (
            node.attr in ALLOWED_METHODS and id(node) in called and isinstance(node.ctx, ast.Load)
        ):
            yield f"it uses the attribute {node.attr}"
        elif (why := _describe_misuse(node)) is not None:
            yield why


def _find_own_names(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _describe_misuse(node: ast.AST) -> str | None:
    """Describe a forbidden form of an allowed construct; None if there is none."""
    match node:
        case ast.Constant(value=int(number)) if number > MAX_PROGRAM_NUMBER:
            return f"it uses a number above {MAX_PROGRAM_NUMBER:,}"
        case ast.Constant(value=value) if not isinstance(value, str | int | None):
            return f"it uses a value of type {type(value).__name__}"
        case ast.keyword(arg=name) if name not in ALLOWED_KEYWORDS:
            return f"it passes the argument {name or '**'}"
        case ast.FormattedValue() if node.format_spec or node.conversion != -1:
            return "it formats a value"
        case ast.arguments() if _has_special_arguments(node):
            return "it has arguments with defaults or stars"
        case ast.comprehension() if node.is_async:
            return "it uses async"
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if (
            len(node.generators) > MAX_COMPREHENSION_LOOPS
        ):
            return f"it has more than {MAX_COMPREHENSION_LOOPS} loops in one comprehension"
    return None


def _has_special_arguments(node: ast.arguments) -> bool:
    return bool(node.vararg or node.kwarg or node.kwonlyargs or node.posonlyargs or node.defaults)


def parse_program(program: str) -> ast.Module:
    """Parse a program and drop its annotations, which would be evaluated."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return tree


Relations = dict[str, dict[str, list[str]]]
"""The other entity -> kind of relation -> relations of that kind."""
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""Values that a program may return."""


class Node(TypedDict):
    """One entity of a scene as plain data."""

    attributes: dict[str, str]  # kind -> comma-separated values: {"color": "blue, white"}
    relations_to: Relations


Nodes = dict[str, Node]  # entity -> node, as in the paper's class


class ProgramScene:
    """A scene graph whose methods return copies."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def get_entities(self) -> list[str]:
        return list(self._nodes)

    def get_attributes(self, ent_name: str) -> dict[str, str]:
        """Attributes by kind; empty for an unknown entity."""
        node = self._nodes.get(ent_name)
        return dict(node["attributes"]) if node else {}

    def get_outgoing_relations(self, ent_name: str) -> Relations:
        """Relations with an entity as source, by target."""
        node = self._nodes.get(ent_name)
        return _copy_relations(node["relations_to"]) if node else {}

    def get_incoming_relations(self, ent_name: str) -> Relations:
        """Relations with an entity as target, by source."""
        relations: Relations = {}
        for source, node in self._nodes.items():
            if ent_name in node["relations_to"]:
                relations[source] = node["relations_to"][ent_name]
        return _copy_relations(relations)

    def generate_subgraph(self, node_list: Iterable[str]) -> ProgramScene:
        """Subgraph of some entities, with the relations among them."""
        kept = set(node_list)
        nodes: Nodes = {}
        for name, node in self._nodes.items():
            if name in kept:
                relations = _copy_relations(node["relations_to"])
                for target in relations.keys() - kept:
                    del relations[target]
                nodes[name] = {"attributes": dict(node["attributes"]), "relations_to": relations}
        return ProgramScene(nodes)

    # The programs of the paper's Fig. 3 use shorter names than its Listing 1.
    get_attrs = get_attributes
    get_outgoing_rels = get_outgoing_relations
    get_incoming_rels = get_incoming_relations
    subgraph = generate_subgraph

    def describe(self, subgraph: ProgramScene) -> str:
        """A graph in words, such as "boy (state: sits); shirt (color: black); boy in shirt"."""
        entities = [_describe_entity(name, node) for name, node in subgraph._nodes.items()]
        return "; ".join([*entities, *_describe_relations(subgraph._nodes)])

    def __repr__(self) -> str:
        return f"Scene({', '.join(self._nodes)})"


def _copy_relations(relations: Relations) -> Relations:
    copies: Relations = {}
    for other, kinds in relations.items():
        copies[other] = {kind: list(texts) for kind, texts in kinds.items()}
    return copies


def _describe_entity(name: str, node: Node) -> str:
    attributes = ", ".join(f"{kind}: {values}" for kind, values in node["attributes"].items())
    return f"{name} ({attributes})" if attributes else name


def _describe_relations(nodes: Nodes) -> Iterator[str]:
    for source, node in nodes.items():
        for target, kinds in node["relations_to"].items():
            for text in chain.from_iterable(kinds.values()):
                yield f"{source} {text} {target}"


MAX_VALUE_ITEMS = 200  # values that a program may return, including nested ones
MAX_VALUE_CHARACTERS = 4000  # of all returned texts together
MAX_VALUE_LEVELS = 4  # of lists in lists
MAX_VALUE_NUMBER = 10**15
MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Memory address in an object's default text; differs between runs."""


class _Texts(type):
    """Metaclass of ``ProgramText``: ``isinstance`` as for ``str``; calls reject addresses."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, str)

    def __call__(cls, *values: Any, **others: Any) -> Any:
        text = str(*values, **others)
        if not (values and isinstance(values[0], str)) and MEMORY_ADDRESS.search(text):
            raise ValueError("it makes an object a text")
        return text


class ProgramText(str, metaclass=_Texts):
    """``str`` for programs; rejects objects whose text is a memory address, such as lambdas.

    Checking only the program's value is not enough: ``str(lambda: 1)[-10:]`` is a bare address.
    """

    __slots__ = ()


def to_plain_data(value: object) -> Value:
    """Convert a program's value to plain data: sets to sorted lists, tuples to lists."""
    return _convert_value(value, [MAX_VALUE_ITEMS, MAX_VALUE_CHARACTERS], MAX_VALUE_LEVELS)


def _convert_value(value: object, budget: list[int], depth: int) -> Value:
    """Convert a value; ``budget`` has the items and characters, ``depth`` the levels still free."""
    budget[0] -= 1
    if isinstance(value, str):
        budget[1] -= len(value)
    if min(*budget, depth) < 0:
        raise ValueError("it returned too much")
    if type(value) not in PLAIN_TYPES:  # a subclass could run code when read
        raise ValueError(f"it returned a value of type {type(value).__name__}")
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise ValueError("it returned a dictionary whose keys are not texts")
        budget[0] += len(value)  # a key and its value are one item
        return {
            str(_convert_value(key, budget, depth - 1)): _convert_value(each, budget, depth - 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        items = [_convert_value(each, budget, depth - 1) for each in value]
        if isinstance(value, set | frozenset):
            items.sort(key=repr)
        return items
    if isinstance(value, int | float) and not abs(value) <= MAX_VALUE_NUMBER:  # also rejects NaN
        raise ValueError("it returned too large a number")
    if isinstance(value, str):
        value.encode("utf-8")  # raises for lone surrogates
        if MEMORY_ADDRESS.search(value):
            raise ValueError("it returned an object as text")
    assert value is None or isinstance(value, str | int | float)
    return value


PLAIN_TYPES = (type(None), bool, int, float, str, list, tuple, set, frozenset, dict)
