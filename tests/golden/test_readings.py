"""Versions of readings and questions are raised by hand: these tests say when."""

import ast
import json
from hashlib import sha256
from pathlib import Path

import pytest

from posh_reward import PoSh
from posh_reward.graph.reader import GRAPH_VERSION, Reader, write_description
from posh_reward.other_metrics import rubric_judge
from posh_reward.other_metrics.harmonic_eval import WORDING_EDITION
from posh_reward.other_metrics.prove import tuples
from posh_reward.posh.fake_judge import FakeJudge
from posh_reward.posh.judge import SENTENCE_WORDING
from posh_reward.posh.names import ASKING_VERSION
from posh_reward.posh.wording import PRESET
from posh_reward.types import Description
from tests.syntax import tree
from tools import conformance


@pytest.mark.parametrize(
    "name",
    [
        "minimal3",
        "goldens",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("minimal", "more")),
    ],
)
def test_the_goldens_of_the_release_are_met(
    shared_data: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goldens = shared_data / "goldens" / f"{name}.jsonl"
    if not goldens.is_file():
        pytest.skip(f"{name}.jsonl is not among the goldens here")
    monkeypatch.setattr("sys.argv", ["conformance", str(goldens)])
    status = conformance.main()
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert printed.count("largest difference") == 1
    assert "differ" not in printed.replace("largest difference", "")


HERE = Path(__file__).parent
TEXTS = Path(__file__).resolve().parents[2] / "research" / "calibration" / "artworks.json"
DIGESTS = HERE / "readings.json"
"""Version of the reading -> digests of what was read, by preset of the graphs, and of constants."""
PACKAGE = Path(__file__).resolve().parents[2] / "posh_reward"
PROVE = PACKAGE / "other_metrics" / "prove" / "prompts"
GRAPH_FILES = (
    *(PACKAGE / "graph" / f"{name}.py" for name in ("parse", "components", "entities")),
    PACKAGE / "graph" / "coreference.py",
    *(PACKAGE / "embedded" / f"{name}.py" for name in ("parser", "lemmatizer")),
    *sorted((PACKAGE / "embedded" / "coref").glob("*.py")),
    PACKAGE / "embedded" / "coref" / "lexicon.txt",
)


def texts() -> list[str]:
    """Every text of the calibration artworks, in order."""
    found: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str) and len(value) > 60:
            found.append(value)
        elif isinstance(value, dict):
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    collect(json.loads(TEXTS.read_text(encoding="utf-8")))
    return found


def test_a_change_of_what_is_read_raises_the_version() -> None:
    digest = sha256()
    for description in Reader().read(texts()):
        assert isinstance(description, Description)
        digest.update(write_description(description).encode("utf-8", "surrogatepass"))
    known = json.loads(DIGESTS.read_text(encoding="utf-8"))
    assert known.get(f"{GRAPH_VERSION}/released") == digest.hexdigest()[:16], (
        "what is read of a text has changed. Once a change: raise GRAPH_VERSION in "
        "graph/reader.py, so that stored descriptions are not taken for new ones, and put "
        f'"<version>/released": "{digest.hexdigest()[:16]}" into tests/golden/readings.json'
    )


def constants(path: Path) -> str:
    """Word lists and numbers of a module, or the entries of a word list."""
    if path.suffix != ".py":
        lines = path.read_text(encoding="utf-8").splitlines()
        return "\n".join(line for line in lines if not line.startswith("#"))
    values = {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]): node.value
        for node in tree(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    }
    own = [name for name in values if name.isupper() and "VERSION" not in name]
    return "\n".join(f"{name} = {ast.unparse(values[name])}" for name in own)


@pytest.mark.parametrize(
    ("version", "constant", "files"),
    [
        (f"{GRAPH_VERSION}", "GRAPH_VERSION in graph/reader.py", GRAPH_FILES),
        (
            f"{GRAPH_VERSION}.{ASKING_VERSION}",
            "ASKING_VERSION in posh/names.py",
            (PACKAGE / "posh" / "names.py", PACKAGE / "posh" / "wording.py"),
        ),
    ],
    ids=["graph", "questions"],
)
def test_a_change_of_a_constant_raises_the_version(
    version: str, constant: str, files: tuple[Path, ...]
) -> None:
    """The texts above use few of the words in the lists, so the lists are watched themselves."""
    # Sorted, so that a constant may move to another file.
    lines = sorted("\n".join(map(constants, files)).splitlines())
    digest = sha256("\n".join(lines).encode()).hexdigest()[:16]
    known = json.loads(DIGESTS.read_text(encoding="utf-8"))
    assert known.get(f"{version}/constants") == digest, (
        f"a word list or a number has changed: raise {constant}, unless that changes no graph, "
        f'question or score, and put "<its version>/constants": "{digest}" into '
        "tests/golden/readings.json"
    )


EDITIONS = {
    **{f"posh/prompts/{preset.prompts}.txt": preset.edition for preset in PRESET.values()},
    "posh/prompts/sentence.txt": SENTENCE_WORDING,
    "other_metrics/harmonic/prompts/paper.txt": WORDING_EDITION,
    "other_metrics/harmonic/prompts/ours.txt": WORDING_EDITION,
    "other_metrics/rubric/prompts/paper.txt": rubric_judge.WORDING_EDITION,
    **{
        f"other_metrics/prove/prompts/{file.name}": tuples.WORDING_EDITION
        for file in sorted(PROVE.glob("*.txt"))
    },
}
"""Wording of prompts -> its edition, which signatures show."""


@pytest.mark.parametrize("file", EDITIONS)
def test_a_change_of_wording_raises_its_edition(file: str) -> None:
    """Otherwise two wordings would have the same signature."""
    name = f"{file} {EDITIONS[file]}"
    digest = sha256((PACKAGE / file).read_bytes()).hexdigest()[:16]
    known = json.loads(DIGESTS.read_text(encoding="utf-8"))
    assert known.get(name) == digest, (
        f"the wording of prompts has changed: raise its edition, unless only headings changed, and "
        f'put "{file} <edition>": "{digest}" into tests/golden/readings.json'
    )


def test_a_change_of_what_is_asked_raises_the_version() -> None:
    some = texts()[:12]
    judge = FakeJudge()
    scores = PoSh(judge).score(some[1:], some[:-1])
    digest = sha256(repr([(s.precision, s.recall) for s in scores]).encode())
    asked = [repr((r.identifier, r.text, r.other)) for r in judge.questions]
    digest.update("\n".join(sorted(asked)).encode())  # in which call each is asked is free
    known = json.loads(DIGESTS.read_text(encoding="utf-8"))
    version = f"{GRAPH_VERSION}.{ASKING_VERSION}/released"
    assert known.get(version) == digest.hexdigest()[:16], (
        "what is asked about a text, or its score, has changed. Once a change: raise "
        "ASKING_VERSION in posh/names.py, so that scores carry another signature, and "
        f'put "<reading>.<asking>/released": "{digest.hexdigest()[:16]}" into '
        "tests/golden/readings.json"
    )
