"""Parsing and tokenizing."""

import json
import os
import random
import shutil
import string
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import as_file, files
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from posh_reward.embedded import lemmatizer, parser
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.graph import parse
from posh_reward.graph.reader import MAX_CHARACTERS
from tests.graph.hostile_texts import FAMILIES

TEXT = (
    "To our left, a woman in a mustard-yellow shawl holds a black umbrella above a small boy. "
    "The boy's hat is red. Behind them are three stalls; one of the stalls is empty."
)


@pytest.fixture(scope="module")
def doc() -> Doc:
    return parse.parse_texts(parse.load_parser(), [TEXT])[0]


def test_labels_are_those_of_clearnlp(doc: Doc) -> None:
    found = {token.dep_ for token in doc}
    assert {"nsubj", "dobj", "prep", "pobj", "amod", "poss", "case", "det", "nummod"} <= found
    assert not found & {"obj", "obl", "cop", "root"}


def test_copula_heads_its_clause(doc: Doc) -> None:
    (hat,) = (token for token in doc if token.text == "hat")
    assert (hat.dep_, hat.head.text, hat.head.pos_) == ("nsubj", "is", "AUX")


def test_texts_are_stripped_and_keep_their_order() -> None:
    docs = parse.parse_texts(parse.load_parser(), ["  A dog sleeps. \n", "", "A cat sits."])
    assert [doc.text for doc in docs] == ["A dog sleeps.", "", "A cat sits."]
    assert docs[0][0].idx == 0


def test_a_blank_line_ends_a_sentence() -> None:
    text = "The Market\n\nTwo women stand by a stall. \n\nA dog sleeps."
    [doc] = parse.parse_texts(parse.load_parser(), [text])
    assert [sentence[0].text for sentence in doc.sents] == ["The", "Two", "A"]


def test_parses_do_not_depend_on_the_batch() -> None:
    nlp = parse.load_parser()
    alone = parse.parse_texts(nlp, [TEXT])[0]
    texts = ["A dog.", TEXT, "Two men row a boat across a wide river."]
    _, together, _ = parse.parse_texts(nlp, texts)
    assert [(t.dep_, t.head.i) for t in alone] == [(t.dep_, t.head.i) for t in together]


def test_missing_pipeline_names_its_install_command() -> None:
    with pytest.raises(MissingDependencyError, match="spacy download en_core_web_none"):
        parse.load_parser("en_core_web_none")


@pytest.mark.parametrize(
    "name",
    [
        "pip",
        "this",
        "torch",
        "evil",
        "evil.en_core",
        "en_evil",
        "../evil",
        "/evil",
        "",
        "-h",
        "en_core_web_sm --direct",
    ],
)
def test_only_a_pipeline_is_imported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote the settings chose the name, of any package that is installed here."""
    for module in ("evil", "en_evil"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "meta.json").write_text('{"lang": "xx"}')
        (tmp_path / module / "__init__.py").write_text("raise SystemExit('imported')")
        (tmp_path / f"{module}-1.dist-info").mkdir()
        (tmp_path / f"{module}-1.dist-info" / "METADATA").write_text(f"Name: {module}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {*sys.modules}
    with pytest.raises(InputError, match="is no spaCy pipeline: use 'embedded', or"):
        parse.load_parser(name)
    assert {each for each in sys.modules if each in ("pip", "this") or "evil" in each} <= before


def test_an_installed_pipeline_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as spaCy makes it, here of the embedded pipeline."""
    folder = tmp_path / "en_mine"
    with as_file(files("posh_reward.embedded") / "pipeline") as embedded:
        shutil.copytree(embedded, folder / "en_mine-1.0.0")
    meta = json.loads((folder / "en_mine-1.0.0" / "meta.json").read_text())
    meta |= {"lang": "en", "name": "mine", "version": "1.0.0"}
    for place in (folder, folder / "en_mine-1.0.0"):
        (place / "meta.json").write_text(json.dumps(meta))
    (folder / "__init__.py").write_text(
        "from spacy.util import load_model_from_init_py\n"
        "def load(**settings): return load_model_from_init_py(__file__, **settings)\n"
    )
    (tmp_path / "en_mine-1.0.0.dist-info").mkdir()
    (tmp_path / "en_mine-1.0.0.dist-info" / "METADATA").write_text("Name: en_mine\nVersion: 1.0.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="'en_mine' has no tagger"):  # as told after loading it
        parse.load_parser("en_mine")


def test_a_pipeline_without_a_parser_is_refused() -> None:
    with pytest.raises(InputError, match="has no parser, tagger, lemmatizer"):
        parse.check_pipeline(spacy.blank("en"), "xx_ent_wiki_sm")


def test_a_pipeline_with_other_labels_is_refused() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    nlp.add_pipe("lemmatizer")
    parser = nlp.add_pipe("parser")
    for label in ("nsubj", "obj", "obl"):
        parser.add_label(label)
    with pytest.raises(InputError, match="does not emit ClearNLP labels"):
        parse.check_pipeline(nlp, "de_core_news_sm")


def test_tree_breaks_a_cycle_at_its_weakest_arc() -> None:
    # Columns: root, word 1, word 2, word 3. Words 1 and 2 prefer each other.
    scores = np.array([[5.0, 0.0, 9.0, 0.0], [1.0, 9.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    assert parser.decode_tree(scores).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(40))
def test_tree_is_the_best_of_all_trees(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(3, 4))
    totals = {
        heads: sum(scores[word, head] for word, head in enumerate(heads))
        for heads in product(range(4), repeat=3)
        if heads.count(0) == 1 and not parser.find_cycle(np.array([0, *heads]))
    }
    assert tuple(parser.decode_tree(scores)) == max(totals, key=lambda heads: totals[heads])


@pytest.mark.parametrize(
    ("word", "tag", "expected"),
    [("stripes", "NNS", "stripe"), ("running", "VBG", "run"), ("boxes", "NNS", "box"),
     ("ladies", "NNS", "lady"), ("gazes", "VBZ", "gaze"), ("Tall", "JJ", "tall")],
)  # fmt: skip
def test_lemmas_follow_rules(word: str, tag: str, expected: str) -> None:
    known = frozenset(("run", "gaze", "stripe"))
    assert lemmatizer.find_lemma(word, "X", tag, {}, known) == expected


HOSTILE = sorted(FAMILIES.keys() - {"ordinary"})
SLOWEST = 15
"""Times what an ordinary text takes; without pieces, bangs took four hundred times as long."""


def seconds(text: str) -> float:
    start = time.process_time()
    parse.tokenize(parse.load_parser(), text)
    return time.process_time() - start


@lru_cache(maxsize=1)
def ordinary_seconds() -> float:
    """For a text of as many characters whose words the tokenizer has not seen before."""
    parse.load_parser()
    letters = random.Random(0)
    words = ["".join(letters.choices(string.ascii_lowercase, k=5)) for _ in range(3_333)]
    return seconds(" ".join(words))


@pytest.mark.parametrize("family", HOSTILE)
def test_no_text_takes_much_longer_than_an_ordinary_one(family: str) -> None:
    assert seconds(FAMILIES[family](MAX_CHARACTERS)) < SLOWEST * ordinary_seconds()


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_spell_the_text(family: str) -> None:
    text = FAMILIES[family](3 * parse.MAX_UNBROKEN_CHARACTERS + 7)
    doc = parse.tokenize(parse.load_parser(), text)
    assert doc.text == text
    assert all(text[token.idx :].startswith(token.text) for token in doc)


@pytest.mark.parametrize(
    "text",
    [
        "A woman can't sit (or stand) here.",
        f"See {'a' * parse.MAX_UNBROKEN_CHARACTERS} and {'!' * parse.MAX_UNBROKEN_CHARACTERS}",
        "a-woman,a-man,their-dogs," * 20,  # spaces after commas are missing
    ],
)
def test_short_runs_get_the_tokens_of_spacy(text: str) -> None:
    nlp = parse.load_parser()
    assert [t.text for t in parse.tokenize(nlp, text)] == [t.text for t in nlp.make_doc(text)]


FAULTY_TRF = """
import os
from importlib.resources import as_file, files
import spacy
from spacy.language import Language

@Language.component("kernels")
def kernels(doc):
    if os.environ.get("ON_GPU"):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return doc

def load(**options):
    import posh_reward.graph.parse
    with as_file(files("posh_reward.embedded") / "pipeline") as path:
        nlp = spacy.load(path)
    nlp.add_pipe("kernels", name="tagger", first=True)
    return nlp
"""
"""A pipeline that fails on a GPU as CuPy 14 does with ``copy=False``."""


@pytest.fixture
def faulty_trf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of that pipeline, on a machine whose GPU spaCy accepts."""
    package = tmp_path / "en_core_faulty_trf"
    package.mkdir()
    (package / "__init__.py").write_text(FAULTY_TRF)
    meta = {"lang": "en", "name": "core_faulty_trf", "spacy_version": ">=3.8"}
    (package / "meta.json").write_text(json.dumps(meta))
    about = tmp_path / "en_core_faulty_trf-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: en_core_faulty_trf\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ON_GPU", raising=False)
    monkeypatch.setattr(spacy, "prefer_gpu", lambda _: bool(os.environ.setdefault("ON_GPU", "1")))
    monkeypatch.setattr(spacy, "require_cpu", lambda: os.environ.pop("ON_GPU"))
    yield "en_core_faulty_trf"
    os.environ.pop("ON_GPU", None)


def test_a_pipeline_that_fails_on_the_gpu_runs_on_the_cpu_and_says_so(
    faulty_trf: str, caplog: pytest.LogCaptureFixture
) -> None:
    (doc,) = parse.parse_texts(parse.load_parser(faulty_trf), ["A dog sleeps."])
    assert [token.dep_ for token in doc] == ["det", "nsubj", "ROOT", "punct"]
    assert "en_core_faulty_trf fails on the GPU and runs on the CPU" in caplog.text
    assert "Unable to avoid copy" in caplog.text
