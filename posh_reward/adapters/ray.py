"""Ray: the server as a Ray Serve application with replicas; Ray Data needs only ``ScoreRows``.

::

    serve run posh_reward.adapters.ray:application judge=configs/judge/vllm.yaml num_replicas=8
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posh_reward.adapters.completion_results import framework
from posh_reward.adapters.score_rows import ScoreRows

with framework("ray[data,serve]==2.60.0"):
    from ray import serve

__all__ = ["ScoreRows", "application"]


def application(settings: Mapping[str, Any]) -> serve.Application:
    """Make the app of ``posh-reward serve``, in replicas that each load the metric.

    Args:
        settings: settings of POSH (``load_metric``), and options of Ray's deployments, such as
            ``num_replicas`` and ``ray_actor_options``.
    """
    own = ("judge", "parser", "coref", "preset", "witness", "store")
    options = {k: v for k, v in settings.items() if k not in (*own, "config")}
    options["num_replicas"] = int(options.get("num_replicas", 1))  # a string on a command line
    metric = {name: settings[name] for name in own if name in settings}

    def build() -> Any:
        """Make the app; called in each replica."""
        from posh_reward.metrics.load_metric import load_metric
        from posh_reward.models.server.server_http import read_key
        from posh_reward.reward.trl import PoshReward
        from posh_reward.serve.app import create_app
        from posh_reward.serve.client import KEY
        from posh_reward.serve.window import BatchedMetric

        posh: Any = BatchedMetric(load_metric(settings.get("config"), **metric))
        reward = None if posh.wants_images else PoshReward(posh)
        return create_app(posh, reward, key=read_key(KEY))

    return serve.deployment(serve.ingress(build)(), **options).bind()
