"""``python -m posh_reward.cli`` is ``posh-reward``."""

import sys

from posh_reward.cli import main

sys.exit(main())
