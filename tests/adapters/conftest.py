"""Short pauses before further calls, so that tests of failures need not wait."""

import pytest

from posh_reward.adapters import completion_results


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_results, "RETRY_PAUSE_SECONDS", 0.01)
