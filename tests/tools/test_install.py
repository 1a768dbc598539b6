"""A failed installation is named."""

from __future__ import annotations

import pytest

from tools.install import FailedError, at_work


def test_a_failure_is_named() -> None:
    with pytest.raises(FailedError, match="failing failed with status 3: see above"):
        at_work("failing", ["bash", "-c", "exit 3"])
