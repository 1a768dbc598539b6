"""Jinja2 templates -> HTML with every value escaped."""

from __future__ import annotations

import base64
import json
from functools import cache, partial
from hashlib import sha256
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

HERE = "posh_reward.study.pages"


def render(name: str, package: str = HERE, **values: Any) -> str:
    """Render a template of a package, or of this one; strings are escaped."""
    text = _environment(package).get_template(name).render(values)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["source"] = partial(_source, environment)
    filters = (number, image_uri, policy_hash, script_json)
    environment.filters.update((each.__name__, each) for each in filters)
    return environment


def _source(environment: Environment, *names: str) -> Markup:
    """Return our own styles and scripts from ``templates/``, unescaped."""
    assert environment.loader is not None
    files = (environment.loader.get_source(environment, name)[0] for name in names)
    return Markup("".join(files))  # noqa: S704 - they ship with the package


def number(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def image_uri(content: bytes) -> str:
    """Return the data URI of a PNG, a JPEG or an SVG."""
    kind = "png"
    if content.startswith(b"\xff\xd8"):
        kind = "jpeg"
    elif content.lstrip().startswith(b"<"):
        kind = "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def policy_hash(text: str) -> str:
    """Return the hash by which a content policy allows a script or a style."""
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def script_json(data: object, element: str | None = None) -> Markup:
    """Dump JSON that cannot close its script element; with ``element``, inside one of that id."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a surrogate pair
    if element is None:
        return Markup(text)  # noqa: S704 - no < can be in it
    start = Markup('<script type="application/json" id="{}">').format(element)
    return start + Markup(text) + Markup("</script>")  # noqa: S704
