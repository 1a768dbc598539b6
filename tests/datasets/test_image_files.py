"""Image files are opened within bounds, and odd paths are not an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from posh_reward.datasets.image_files import open_image, path_exists


@pytest.mark.parametrize("path", ["x" * 300, "data:image/png;base64," + "A" * 5000, "a\0b", "gone"])
def test_what_cannot_be_a_path_is_not_there(path: str) -> None:
    assert not path_exists(path)


def test_a_folder_is_not_an_image(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is not a file"), open_image(tmp_path):
        pass
