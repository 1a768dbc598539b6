"""The version of TRL that the extension was written for.

``DapoTrainer`` overrides methods of ``GRPOTrainer`` whose names begin with an underscore. They may
change in any release, so another version than the tested ones is refused, but only where one of
the two extensions is switched on. ``tests/training/dapo/test_pins.py`` checks what is relied on.

To support a new version: run that test, with ``tests/training/dapo`` and ``--run-slow``, and add
the version here and to pyproject.toml.
"""

from __future__ import annotations

from posh_reward.errors import ConfigError

TESTED = ("1.16",)
"""Major and minor versions of TRL."""


def check_version(version: str) -> None:
    """Refuses a version of TRL whose methods may be others.

    Args:
        version: ``trl.__version__``.

    Raises:
        ConfigError: it is none of ``TESTED``.
    """
    if ".".join(version.split(".")[:2]) not in TESTED:
        raise ConfigError(
            f"dynamic sampling and span credit override methods of TRL {' and '.join(TESTED)}, and "
            f"{version} is installed: pip install 'trl=={TESTED[-1]}.*', or leave both off"
        )
