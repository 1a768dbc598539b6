"""``posh-reward serve``: the metric, and its reward, for many clients over HTTP."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posh_reward.cli import EXIT_OK, options
from posh_reward.errors import InputError, MissingDependencyError, install_command

if TYPE_CHECKING:
    import uvicorn

    from posh_reward.reward.trl import PoshReward

SERVE_HELP = """\
Serve the metric over HTTP: POST rows of generation and reference to /v1/score to get their scores.
Requests of all clients are scored together. OpenRLHF's and slime's trainers get rewards from
/v1/openrlhf and /v1/slime. The page /docs describes all endpoints and tries them; /health and
/metrics (Prometheus) are for monitoring (docs/serve.md).

If POSH_REWARD_KEY is set, requests must carry it: Authorization: Bearer KEY. On SIGTERM the server
answers the requests that it has accepted, then exits."""


def add_serve(command: argparse.ArgumentParser) -> None:
    options.describe_command(
        command, SERVE_HELP, "serve --port 8000 --judge configs/judge/server.yaml"
    )
    add = command.add_argument
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1, for this "
        "machine alone)")  # fmt: skip
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one")
    add("--reward", metavar="FILE", help="settings of the reward for trainers, such as its shaping "
        "(docs/rewards.md)")  # fmt: skip
    add("--fallback", type=float, help="reward of a completion that could not be judged (default: "
        "status 503, so that the trainer asks again)")  # fmt: skip
    options.add_metric(command, witness=True)
    add = command.add_argument_group("batches").add_argument
    add("--milliseconds", type=float, default=5.0, help="time that a text waits for others to be "
        "scored with")  # fmt: skip
    add("--batch", type=options.positive, default=256, help="most texts in a call of the metric")
    add("--queue", type=options.positive, default=4096, help="most texts that wait; more are "
        "refused with status 429")  # fmt: skip
    command.set_defaults(command=serve_metric)


def serve_metric(flags: argparse.Namespace) -> int:
    for name in ("fastapi_offline", "prometheus_client", "uvicorn"):
        if find_spec(name) is None:
            raise MissingDependencyError(f"serve needs {name}: {install_command('serve')}")
    from posh_reward.models.server.server_http import read_key
    from posh_reward.serve.app import create_app
    from posh_reward.serve.client import SERVER_KEY_VARIABLE
    from posh_reward.serve.hosts import OwnHosts
    from posh_reward.serve.window import BatchedMetric

    key = read_key(SERVER_KEY_VARIABLE)
    with bind_socket(flags.host, flags.port) as bound:
        # At once: clients wait while the judge is loaded, and can tell a server from none.
        bound.listen(2048)
        reward = _build_reward(flags)
        reward.check()  # fails here, not at the first client, if the judge cannot work
        metric: Any = BatchedMetric(
            reward.metric, flags.milliseconds, batch=flags.batch, capacity=flags.queue
        )
        reward.metric = metric
        rewarding = flags.reward is not None or not metric.wants_images
        app = create_app(metric, reward if rewarding else None, key=key, fallback=flags.fallback)
        if key is None and bound.getsockname()[0] in ("127.0.0.1", "::1"):
            remedy = "set POSH_REWARD_KEY to serve it under another, such as a proxy's"
            app.add_middleware(OwnHosts, names=(), remedy=remedy)
        _print_address(bound.getsockname(), metric.signature, key)
        # uvicorn answers what it has accepted, then raises the signal again. What is still being
        # computed is for clients that have gone; an orderly exit would wait for its thread.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(EXIT_OK))
        build_server(app).run([bound])
    return EXIT_OK


def _print_address(name: tuple[Any, ...], signature: str, key: str | None) -> None:
    from posh_reward.serve.hosts import format_address

    host, port = name[:2]
    address = format_address(host, port)
    print(f"{signature}\nserved at {address}, described at {address}/docs", file=sys.stderr)
    if key is None and not host.startswith("127.") and host != "::1":
        print(
            f"anyone who reaches {host} can use the server: set POSH_REWARD_KEY to require a key",
            file=sys.stderr,
        )


def build_server(app: Any) -> uvicorn.Server:
    """Return a server of an ASGI app; ``run`` it with a listening socket."""
    import uvicorn

    # No access log: a study's paths are its raters' secret links.
    config = uvicorn.Config(
        app, ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False
    )
    return uvicorn.Server(config)


def bind_socket(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        raise InputError(f"cannot listen at {host}, port {port}: {error}") from None
    return bound


def _build_reward(flags: argparse.Namespace) -> PoshReward:
    from posh_reward.posh.load_metric import metric_flags, read_metric
    from posh_reward.reward.instance import make_reward
    from posh_reward.settings import check_settings, read_settings

    settings: dict[str, Any] = {}
    if flags.reward:
        settings = read_settings(Path(flags.reward), "the reward's settings")
    settings = check_settings(make_reward, settings, "reward")
    metric = read_metric(flags.metric or settings.get("metric"), **metric_flags(flags))
    return make_reward(**{**settings, "metric": metric})
