"""Environments for tests of Maverick: a fake worker, or the real one with a stub of the package."""

from __future__ import annotations

import sys
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from posh_reward.graph.coref.maverick import MaverickCoref
from posh_reward.graph.coref.maverick_setup import python_of
from posh_reward.types import Clusters

VOCAB = Vocab()

WRAPPER = """#!{python}
import runpy, sys
sys.path.insert(0, {stub!r})
sys.argv = sys.argv[2:]  # without -I
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STUB = """
import os, time
print("noise at import")
class Maverick:
    def __init__(self, hf_name_or_path, device):
        print(hf_name_or_path, "loading on", device)
        if hf_name_or_path.endswith("endless"):
            open(hf_name_or_path, "w").write(str(os.getpid()))
            time.sleep(3600)
    def predict(self, sentences):
        words = [word for sentence in sentences for word in sentence]
        os.system("echo noise of a child process")
        if words[0] == "stumble":
            raise IndexError("no mentions")
        return {"clusters_token_offsets": [((4, 4), (0, 1), (0, 1)), ((2, 2),), ((3, 3), (3, 3))]}
"""


def make_env(folder: Path, interpreter: str) -> Path:
    """An environment whose interpreter is a script."""
    python = python_of(folder)
    python.parent.mkdir(parents=True)
    python.write_text(interpreter)
    python.chmod(0o755)
    return folder


def fake_env(folder: Path) -> Path:
    """One whose interpreter is ``fake_maverick.py``."""
    fake = Path(__file__).with_name("fake_maverick.py").read_text()
    return make_env(folder, f"#!{sys.executable}\n{fake}")


def environment_with_stub(folder: Path) -> Path:
    """One where the real worker script runs, with a small package ``maverick``."""
    info = folder / "stub" / "maverick_coref-1.0.7.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: maverick-coref\nVersion: 1.0.7\n")
    (info.parent / "maverick.py").write_text(STUB)
    return make_env(folder, WRAPPER.format(python=sys.executable, stub=str(info.parent)))


def doc(text: str, *, starts: tuple[int, ...] = ()) -> Doc:
    """A Doc of the words of a text; sentences start at these tokens."""
    words = text.split(" ")
    return Doc(VOCAB, words=words, sent_starts=[i == 0 or i in starts for i in range(len(words))])


def resolve(resolver: MaverickCoref, text: str, **options: tuple[int, ...]) -> Clusters:
    return resolver.resolve([doc(text, **options)])[0]
