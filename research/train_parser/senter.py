"""Training of the sentence splitter, a small spaCy ``senter``."""

from __future__ import annotations

import random
from collections.abc import Sequence

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam

from research.train_parser.documents import bare

MODEL = {
    "@architectures": "spacy.Tagger.v2",
    "nO": None,
    "tok2vec": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 32,
        "depth": 3,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
    },
}


def add_senter(nlp: Language, docs: Sequence[Doc], epochs: int = 4, seed: int = 0) -> None:
    """Adds a ``senter`` in front and trains it on gold Docs of several sentences."""
    fix_random_seed(seed)
    rng = random.Random(seed)
    nlp.add_pipe("senter", first=True, config={"model": MODEL})
    examples = [Example(bare(doc), doc) for doc in docs]
    optimizer = Adam(0.001, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=True)
    senter = nlp.get_pipe("senter")
    senter.initialize(lambda: examples[:100], nlp=nlp)
    for epoch in range(epochs):
        rng.shuffle(examples)
        losses: dict[str, float] = {}
        for batch in minibatch(examples, 24):
            senter.update(batch, sgd=optimizer, drop=0.1, losses=losses)
        print(f"senter epoch {epoch} loss {losses['senter']:.1f}", flush=True)
    senter.model.use_params(optimizer.averages).__enter__()
