"""A folder in the layout of ``amitha/docent`` on the hub: card, and Parquet files in ``data``."""

from io import BytesIO
from pathlib import Path

from datasets import Dataset, Features, Value
from datasets import Image as ImageFeature
from PIL import Image

FEATURES = Features(
    {"uuid": Value("string"), "image": ImageFeature(), "reference": Value("string")}
)
CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: val
    path: data/val-*
  - split: test
    path: data/test-*
dataset_info:
  features:
  - name: uuid
    dtype: string
  - name: image
    dtype: image
  - name: reference
    dtype: string
  splits:
{splits}
license: cc0-1.0
---
# DOCENT
"""
SPLIT = """  - name: {name}
    num_bytes: {size}
    num_examples: {rows}
"""
SIDES = (400, 300)


def jpeg(number: int, sides: tuple[int, int] = SIDES) -> bytes:
    """A JPEG whose lower half is red, brighter with each number."""
    image = Image.new("RGB", sides, "teal")
    image.paste((100 + number, 0, 0), (0, sides[1] // 2, *sides))
    content = BytesIO()
    image.save(content, "JPEG", quality=95)
    return content.getvalue()


def write_docent(
    folder: Path, *, train: int = 8, val: int = 4, test: int = 4, sides: tuple[int, int] = SIDES
) -> Path:
    """Write the folder, with few rows and images of ``sides``; return it."""
    (folder / "data").mkdir(parents=True)
    lines = []
    for name, rows in (("train", train), ("val", val), ("test", test)):
        columns = {
            "uuid": [f"{name}-uuid-{row}" for row in range(rows)],
            "image": [
                {"bytes": jpeg(row, sides), "path": f"{name}-{row}.jpg"} for row in range(rows)
            ],
            "reference": ["The upper half is teal. The lower half is red."] * rows,
        }
        made = Dataset.from_dict(columns, features=FEATURES)
        made.to_parquet(folder / "data" / f"{name}-00000-of-00001.parquet")
        lines.append(SPLIT.format(name=name, size=made.data.nbytes, rows=rows))
    (folder / "README.md").write_text(CARD.format(splits="".join(lines).rstrip("\n")))
    return folder
