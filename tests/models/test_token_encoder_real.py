"""all-MiniLM-L6-v2 itself, wherever the project takes an encoder."""

import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from posh_reward import PoSh, Prove
from posh_reward.embedded.judge import EmbeddedJudge
from posh_reward.embedded.judge.encoder_features import scale_to_unit_length
from posh_reward.errors import InputError
from posh_reward.graph.reader import Reader
from posh_reward.models import encoders
from posh_reward.study.agreement.baselines import EmbeddingAlerts
from posh_reward.study.agreement.metric_scores import TextPair
from posh_reward.types import Failure

pytestmark = pytest.mark.encoder
SENTENCE = "A small child plays in shallow water."
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of model.safetensors on the hub."""

library = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"
)


@pytest.fixture(scope="module")
def encode(minilm: Path) -> encoders.TokenEncoder:
    return encoders.TokenEncoder(str(minilm))


def mean(encode: encoders.TokenEncoder, text: str) -> encoders.Floats:
    """Direction of a text's mean vector."""
    direction: encoders.Floats = scale_to_unit_length([encode([text])[0].vectors.mean(axis=0)])[0]
    return direction


def test_equal_texts_have_equal_vectors_whatever_came_before(encode: encoders.TokenEncoder) -> None:
    text = [SENTENCE, "It is summer.", "Much more is said here, in many more words than before."]
    first = encode(text)
    encode(["Something else stands here."])
    again = pickle.loads(pickle.dumps(encode))
    assert again.name == encode.name
    for encoder in (encode, again):
        for one, other in zip(first, encoder(text), strict=True):
            assert (one.vectors == other.vectors).all()


def test_a_sentence_longer_than_the_model_takes_goes_in_parts(
    encode: encoders.TokenEncoder,
) -> None:
    boats, nothing = encode(["boat " * 700, ""])
    assert len(boats.spans) == len(boats.vectors) == 700
    assert len(nothing.vectors) == 0


def test_a_paraphrase_is_nearer_than_another_scene(encode: encoders.TokenEncoder) -> None:
    here, same, other = (
        mean(encode, text)
        for text in (SENTENCE, "A toddler splashes in a paddling pool.", "A man repairs a clock.")
    )
    assert here @ same > here @ other + 0.2


def test_a_paraphrase_that_no_dictionary_knows_scores_higher_with_the_encoder(
    encode: encoders.TokenEncoder,
) -> None:
    texts = "A toddler splashes in a paddling pool.", "A man repairs a clock."
    plain, near = (
        [scores.f1 or 0 for scores in PoSh(judge=judge).score(texts, [SENTENCE] * 2)]
        for judge in (EmbeddedJudge(), EmbeddedJudge(encoder=encode))
    )
    assert near[0] - near[1] > plain[0] - plain[1] + 0.02


CONTRADICTIONS = {
    "antonym": [
        ("A tall man opens the door.", "A tall man closes the door."),
        ("An old woman carries a basket.", "A young woman carries a basket."),
        ("The glass on the table is full.", "The glass on the table is empty."),
        ("A large dog sleeps on the floor.", "A small dog sleeps on the floor."),
    ],
    "number": [
        ("Two boats lie on the beach.", "Five boats lie on the beach."),
        ("Three women carry jugs.", "Seven women carry jugs."),
        ("A man holds two candles.", "A man holds four candles."),
        ("One bird sits on the wall.", "Six birds sit on the wall."),
    ],
    "colour": [
        ("A woman wears a red dress.", "A woman wears a blue dress."),
        ("A white horse drinks at the river.", "A black horse drinks at the river."),
        ("The man's green coat is long.", "The man's yellow coat is long."),
        ("A brown dog runs on the grass.", "A white dog runs on the grass."),
    ],
    "negation": [
        ("The boy has old shoes.", "The boy has no shoes."),
        ("A woman with a hat stands there.", "A woman without a hat stands there."),
        ("The room has windows.", "The room has no windows."),
    ],
    "role": [
        ("A man chases a dog.", "A dog chases a man."),
        ("A girl looks at a soldier.", "A soldier looks at a girl."),
        ("The lamp stands on the box.", "The box stands on the lamp."),
        ("A cat lies under the chair.", "A chair lies under the cat."),
    ],
}
"""Kind -> (reference, the same contradicted)."""


def margins(judge: EmbeddedJudge, kind: str) -> list[float]:
    """Per example how far the reference's f1 with itself is above that of its contradiction."""
    references, contradicted = zip(*CONTRADICTIONS[kind], strict=True)
    posh = PoSh(judge=judge)
    right, wrong = (posh.score(texts, references) for texts in (references, contradicted))
    return [(a.f1 or 0) - (b.f1 or 0) for a, b in zip(right, wrong, strict=True)]


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_vectors_that_confuse_contradictions_do_not_blind_the_judge(
    encode: encoders.TokenEncoder, kind: str
) -> None:
    assert min(margins(EmbeddedJudge(encoder=encode), kind)) > 0.05


def test_the_name_is_the_digest_of_the_files_wherever_they_lie(
    minilm: Path, tmp_path: Path, encode: encoders.TokenEncoder
) -> None:
    for path in minilm.glob("*.*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert encoders.TokenEncoder(str(tmp_path)).name == encode.name
    assert encode.name in EmbeddedJudge(encoder=str(tmp_path)).name
    with pytest.raises(InputError, match=r"model\.safetensors"):
        encoders.load_token_encoder(str(tmp_path / "nothing"))


@library
def test_prove_finds_a_synonym_nearer_than_another_thing(minilm: Path) -> None:
    prove = Prove(str(minilm))
    captions = ["A red dress and a hat."] * 2
    texts = ["The frock is crimson.", "The bridge is wooden."]
    same, other = prove.score(texts, [None] * 2, [None] * 2, captions)
    assert (same.truthfulness or 0) > (other.truthfulness or 0) + 0.05
    assert encoders.text_encoder_name(str(minilm)) in prove.signature


@library
@pytest.mark.parametrize("reader", [None, Reader()], ids=["4GramEmbed", "SGEmbed"])
def test_embedding_baselines_score_a_paraphrase_above_an_invention(
    minilm: Path, reader: Reader | None
) -> None:
    encoder = encoders.load_encoder(str(minilm))
    measure = EmbeddingAlerts(encoder, encoders.text_encoder_name(str(minilm)), reader)
    reference = "A toddler in a scarlet coat sits by the sea."
    texts = (
        "A small child in a red coat sits by the ocean.",
        "Four engineers repair a rusty steam locomotive.",
    )
    same, other = measure.alerts([TextPair(text, (reference,)) for text in texts])
    assert not isinstance(same, Failure)
    assert not isinstance(other, Failure)
    means = [np.mean([score for _, score in each["mistakes"]]) for each in (same, other)]
    assert means[0] > means[1] + 0.3
    assert max(score for _, score in other["mistakes"]) < measure.threshold
