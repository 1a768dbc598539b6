"""Files in their authors' layouts."""

import json
from pathlib import Path
from typing import Any

import pytest

from posh_reward.errors import InputError
from posh_reward.study.agreement.judgment_files import flickr8k, thumb
from posh_reward.study.agreement.ratings import RatingColumns, read_ratings
from tests.cli.running import write_rows

AXES = ("mistakes", "omissions", "overall")


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_flickr8k(tmp_path: Path) -> None:
    judgments = [
        {"image_path": "x.jpg", "caption": "A  cat .", "rating": 1.0},
        {"image_path": "x.jpg", "caption": "A dog .", "rating": float("nan")},
    ]
    image = {"image_path": "images/a.jpg", "ground_truth": ["A dog .", "Dogs  run ."],
             "human_judgement": judgments}  # fmt: skip
    rows = flickr8k(written(tmp_path / "flickr8k.json", {"a": image}))
    ratings = read_ratings(rows, RatingColumns(ratings={"overall": "rating"}), "flickr8k")
    assert [text.generation for text in ratings.texts] == ["A cat .", "A dog ."]
    assert ratings.texts[0].references == ("A dog .", "Dogs run .")
    assert ratings.texts[0].image == "images/a.jpg"
    assert ratings.people["overall"][0] == 1
    with pytest.raises(InputError, match="is not an object of images"):
        flickr8k(written(tmp_path / "list.json", [image]))
    with pytest.raises(InputError, match="'a' has no list 'human_judgement'"):
        flickr8k(written(tmp_path / "bare.json", {"a": {}}))


@pytest.mark.parametrize("by_segment", [True, False])
def test_thumb(tmp_path: Path, by_segment: bool) -> None:
    """References are found by segment, or in the order of the segments."""
    rows = [
        {"SYS": "Up-Down", "seg_id": "974", "set_id": 5, "hyp": "An elephant.", "image": "a.jpg",
         "P": 4.0, "R": 3.0, "Fl": -0.0, "Inc": -0.0, "Con": -0.0, "human_score": 3.5},
        {"SYS": "Human", "seg_id": "2453", "set_id": 24, "hyp": "A bench.", "image": "b.jpg",
         "P": 5.0, "R": 4.0, "Fl": -0.3, "Inc": -0.0, "Con": -0.0, "human_score": 4.2},
    ]  # fmt: skip
    refs = [{"seg_id": "974", "refs": ["A man.", "A ride."]}, {"seg_id": "2453", "refs": ["x"]}]
    refs = refs[::-1] if by_segment else [{"refs": each["refs"]} for each in refs]
    file = write_rows(tmp_path / "mscoco_THumB-1.0.jsonl", rows)
    others = write_rows(tmp_path / "mscoco_references.jsonl", refs)
    found = thumb(file, others)
    columns = RatingColumns(ratings={axis: axis for axis in AXES})
    ratings = read_ratings(found, columns, "thumb")
    assert [text.references for text in ratings.texts] == [("A man.", "A ride."), ("x",)]
    assert [ratings.people[axis].tolist() for axis in AXES] == [[4, 5], [3, 4], [3.5, 4.2]]
    with pytest.raises(InputError, match="--reference-file"):
        thumb(file)
    with pytest.raises(InputError, match=r"no references of segment '974'|1 rows without seg_id"):
        thumb(file, write_rows(tmp_path / "few.jsonl", [refs[0]]))
