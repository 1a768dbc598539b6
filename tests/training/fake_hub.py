"""A hub on this machine: folders as its models and datasets, and every request counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """Serves models, by name, to huggingface_hub's client; used as a context."""

    daemon_threads = True

    def __init__(
        self, models: Mapping[str, Path], datasets: Mapping[str, Path] | None = None
    ) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folders = {("models", name): folder for name, folder in models.items()}
        self.folders |= {("datasets", name): folder for name, folder in (datasets or {}).items()}
        self.requests: list[str] = []
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> FakeHub:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """The few of the hub's routes that downloads use."""

    protocol_version = "HTTP/1.1"
    server: FakeHub

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        for (kind, name), folder in self.server.folders.items():
            root = f"/{name}" if kind == "models" else f"/{kind}/{name}"
            if path.startswith(f"{root}/resolve/"):
                return self.file(folder / path.removeprefix(f"{root}/resolve/").split("/", 1)[1])
            root = f"/api/{kind}/{name}"
            if path.startswith(f"{root}/tree/"):
                below = path.removeprefix(f"{root}/tree/").split("/", 1)[1:]
                return self.json(
                    [self.entry(each, folder) for each in sorted(folder.joinpath(*below).iterdir())]
                )
            if path == root or path.startswith(f"{root}/revision/"):
                files = [{"rfilename": each.name} for each in sorted(folder.iterdir())]
                return self.json({"id": name, "sha": COMMIT, "siblings": files, "private": False})
        return self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def entry(self, file: Path, root: Path) -> dict[str, Any]:
        path = file.relative_to(root).as_posix()
        if file.is_dir():
            return {"type": "directory", "path": path, "oid": COMMIT}
        return {"type": "file", "path": path, "size": file.stat().st_size, "oid": etag(file)}

    def file(self, file: Path) -> None:
        if not file.is_file():
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        named = {"ETag": f'"{etag(file)}"', "X-Repo-Commit": COMMIT}
        return self.answer(200, file.read_bytes(), named)

    def json(self, value: object) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
