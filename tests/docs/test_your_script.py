"""The script of docs/your_script.md trains on a table of images and saves the model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from recipes.demo import tiny_qwen

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your_script.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_script_trains_on_a_table_of_images(tmp_path: Path) -> None:
    [code] = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=1)
    rows = ["image,reference"]
    for number in range(8):
        Image.new("RGB", (100 + number, 60), "blue").save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,A tall man in a green coat stands near a house.")
    (tmp_path / "photographs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "mine.py", "tiny", "photographs.csv", "mine"],
        cwd=tmp_path, env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "mine" / "model.safetensors").is_file()
