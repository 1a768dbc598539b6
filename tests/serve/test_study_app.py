"""Links to a packet's pages: a real server, killed and started again, and a real browser."""

from __future__ import annotations

import json
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from posh_reward.cli import EXIT_UNUSABLE, main
from posh_reward.cli.packets import list_answer_files
from posh_reward.serve.study_app import read_tokens, study_app
from posh_reward.study.packets.draw import Design
from posh_reward.study.packets.make import Packet, make_packet, read_key, write_packet
from posh_reward.study.packets.rater_answers import RaterAbout, collect_answers, read_sheets
from posh_reward.study.packets.study_records import BackgroundQuestion, shipped_texts
from posh_reward.training.doctor.node_checks import free_port
from tests.chromium import Browser, axe, violations
from tests.serve.test_app import served
from tests.study.packets.studies import coarse, content, items, packet, saved

PACKET = packet(6)
SENT, NOT_SENT = "All answers are sent.", "Not sent yet."


class Site:
    """``posh-reward packets serve`` on a port of its own, in a thread, or in a process to kill."""

    def __init__(self, folder: Path, port: int, made: Packet = PACKET) -> None:
        self.made = made
        self.folder, self.port, self.links = folder, port, dict[str, str]()
        self.progress = ""
        write_packet(made, folder / "packet", folder / "packet.key.json")

    @contextmanager
    def served(self) -> Iterator[Site]:
        """In a thread of this process."""
        key, folder = self.folder / "packet.key.json", self.folder / "packet"
        tokens = read_tokens(self.folder / "packet.links.csv", self.made.key.raters)
        organiser = read_tokens(self.folder / "packet.organiser.csv", ["organiser"])
        answers = self.folder / "packet.answers"
        app = study_app(read_key(key, folder), folder, answers, tokens, (), organiser)
        with served(app, self.port) as url:
            [self.progress] = (f"{url}/o/{token}" for token in organiser)
            self.links = {rater: f"{url}/r/{token}" for token, rater in tokens.items()}
            yield self

    def start(self, *flags: str) -> None:
        """In a process of its own."""
        command = [sys.executable, "-m", "posh_reward.cli", "packets", "serve",
                   str(self.folder / "packet.key.json"), str(self.folder / "packet"),
                   "--port", str(self.port), *flags]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/health")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        said = (self.folder / "log").read_text()
        self.links = dict(re.findall(r"^(rater-\d+)  (\S+)$", said, re.MULTILINE))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def file(self, rater: str = "rater-01") -> Path:
        return self.folder / "packet.answers" / f"answers-{self.made.key.packet}-{rater}.json"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path, free_port()).served() as running:
        yield running


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Site]:
    running = Site(tmp_path, free_port())
    running.start()
    yield running
    running.kill()


def put(site: Site, data: bytes, version: str = "none", rater: str = "rater-01") -> Any:
    headers = {"X-Answers-Version": version}
    return httpx.put(f"{site.links[rater]}/answers", content=data, headers=headers)


def visit(browser: Browser, url: str, *, fresh: bool = True) -> None:
    for _ in range(2 if fresh else 1):
        browser.events.clear()
        browser.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in browser.events):
            browser.events.append(browser._hear())
        if fresh:
            browser.run("localStorage.clear(); sessionStorage.clear()")


def until(browser: Browser, script: str, wanted: Any) -> None:
    for _ in range(750):
        if browser.run(script) == wanted:
            return
        time.sleep(0.02)
    raise AssertionError(f"{script} is {browser.run(script)!r}")


def says(text: str) -> str:
    return f"document.getElementById('sent').textContent.startsWith({text!r})"


def overalls(path: Path) -> list[int | None]:
    return [answer["overall"] for answer in json.loads(path.read_text())["answers"]]


def choose(browser: Browser, value: int) -> None:
    browser.point(f"input[name='overall'][value='{value}']", click=True)


def test_what_is_called_sent_and_links_survive_a_kill_and_the_rest_follows(
    killable: Site, chromium: Browser
) -> None:
    site, links = killable, killable.links
    visit(chromium, links["rater-01"])
    assert "same link" in chromium.run("document.getElementById('keeping').textContent")
    chromium.point("#begin", click=True)
    chromium.run("document.getElementById('finish').click()")
    left = chromium.run("document.getElementById('left').textContent")
    assert left.startswith("3 of 3 tasks are not finished.")
    assert "file" not in left  # a link has none
    chromium.run("document.getElementById('open').querySelector('button').click()")
    assert not site.file().exists()  # who only looks has answered nothing
    choose(chromium, 1)
    until(chromium, says(SENT), True)
    site.kill()
    assert overalls(site.file()) == [1, None, None]
    chromium.point("#next", click=True)
    choose(chromium, -2)
    until(chromium, says(NOT_SENT), True)
    site.start()
    until(chromium, says(SENT), True)
    assert overalls(site.file()) == [1, -2, None]
    assert [p.name for p in site.file().parent.glob("[!.]*")] == [site.file().name]
    assert site.links == links
    assert len({*links.values()}) == 2
    assert (site.folder / "packet.links.csv").stat().st_mode & 0o077 == 0
    token = links["rater-01"].rpartition("/")[2]
    log = (site.folder / "log").read_text()
    assert log.count(token) == 2, "in the table of links of either start, in no log of requests"


def test_a_rater_goes_on_at_another_computer(site: Site, chromium: Browser) -> None:
    assert put(site, saved(PACKET.key, "rater-01")).status_code == 204
    visit(chromium, site.links["rater-01"])
    until(chromium, "document.getElementById('begin').textContent", "Continue")
    done = "document.getElementById('done').textContent"
    until(chromium, done, "3 of 3 tasks done")
    assert chromium.complaints() == []


def test_answers_from_two_computers_are_joined(site: Site, chromium: Browser) -> None:
    visit(chromium, site.links["rater-01"])
    chromium.point("#begin", click=True)
    tasks = PACKET.key.raters["rater-01"].tasks
    open_task = {"mistakes": None, "omissions": None, "seconds": 1, "comment": ""}
    other = [
        {"task": task.id, "overall": value, **open_task}
        for task, value in zip(tasks, (2, 2, None), strict=True)
    ]
    assert put(site, saved(PACKET.key, "rater-01", other)).status_code == 204
    choose(chromium, -1)  # to the first task, which has another answer there
    until(chromium, says(SENT), True)
    assert overalls(site.file()) == [-1, 2, None]


def test_only_a_raters_own_whole_answers_are_stored(site: Site) -> None:
    mine, again = saved(PACKET.key, "rater-01"), content(PACKET.key, "rater-01", [])
    reply = put(site, mine)
    assert (reply.status_code, reply.content) == (204, b"")
    assert put(site, mine).status_code == 412  # others are there by now
    assert put(site, mine.replace(b":60", b":61"), reply.headers["X-Answers-Version"]
               ).status_code == 422  # fmt: skip
    assert put(site, saved(PACKET.key, "rater-02")).status_code == 422
    assert put(site, json.dumps(again).encode() + b" " * 5_000_000).status_code == 413
    for data in (b"", b"[]", b"null", b"\xff\xfe{", b"[" * 100_000):
        assert put(site, data).status_code == 422
    assert site.file().read_bytes() == mine
    page = httpx.get(site.links["rater-01"])
    assert page.headers["referrer-policy"] == "no-referrer"
    for path in ("x", "../packet.key.json", "%2e%2e/packet.key.json"):
        assert httpx.get(site.links["rater-01"][:-22] + path).status_code == 404
    assert collect_answers([site.file()], PACKET.key).sheets[0].unfinished == ()


def test_answers_that_older_ones_replace_are_kept(site: Site) -> None:
    tasks = PACKET.key.raters["rater-01"].tasks
    whole = [coarse(PACKET.key, task) for task in tasks]
    first, full, old = (saved(PACKET.key, "rater-01", each) for each in (whole[:1], whole, []))
    version = "none"
    for data in (first, full, old):  # the last comes from a browser that was away
        reply = put(site, data, version)
        assert reply.status_code == 204
        version = reply.headers["X-Answers-Version"]
    assert site.file().read_bytes() == old
    [kept] = (site.folder / "packet.answers" / ".earlier").iterdir()
    assert kept.read_bytes() == full, "the first are among these"
    assert list_answer_files([str(site.file().parent)]) == [site.file()]
    for file in (site.file(), kept, site.folder / "packet.links.csv"):
        assert file.stat().st_mode & 0o077 == 0, "they hold people's answers"


def test_no_redirect_leads_to_the_host_that_a_request_names(site: Site) -> None:
    for path in ("/health/", "/r/x/"):
        url = f"http://127.0.0.1:{site.port}{path}"
        for host, status in (("evil.example", 421), ("localhost", 404)):
            reply = httpx.get(url, headers={"Host": host}, follow_redirects=False)
            assert reply.status_code == status
            assert "location" not in reply.headers


OWN = ("127.0.0.1", "localhost", "LOCALHOST.:80", "[::1]:8000", "[fe80::1]", "192.168.1.7:80",
       socket.gethostname(), "study.museum.example", "Study.Museum.Example:443")  # fmt: skip
OTHER = ("evil.example", "localhost.evil.example", "evil.example:8000", "127.0.0.1.evil.example",
         "museum.example", "study.museum.example.evil", "[evil", "a b", "127.0.0.1@evil.example",
         "127.0.0.1 evil.example", "\xff", "1.2.3.4.5", "[::1", "x@localhost.example")  # fmt: skip


@pytest.mark.parametrize(("hosts", "status"), [(OWN, 200), (OTHER, 421)])
def test_no_page_elsewhere_can_take_the_servers_address(
    hosts: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    site = Site(tmp_path, free_port())
    site.start("--url", "https://study.museum.example/")
    try:
        for host in hosts:
            with socket.create_connection(("127.0.0.1", site.port)) as connection:
                line = f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                connection.sendall(line.encode("latin-1"))
                reply = connection.makefile("rb").read().decode()
            assert int(reply.split()[1]) in (status, 400), host
            assert status == 421 or reply.split()[1] == "200", host
            if " 421 " in reply:
                assert "name it with --url" in reply
    finally:
        site.kill()
    [link, _] = site.links.values()
    assert link.startswith("https://study.museum.example/r/")


def test_a_full_disk_is_told_and_what_was_not_stored_follows(killable: Site) -> None:
    """Not full, but closed to any file: the system reports both where a file is written."""
    site, tasks = killable, PACKET.key.raters["rater-01"].tasks
    answers = [{**coarse(PACKET.key, task), "comment": "x" * 1900} for task in tasks]
    data = saved(PACKET.key, "rater-01", answers)
    room = (site.folder / "log").stat().st_size + 1000  # for the line that is told
    resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    for _ in range(3):
        reply = put(site, data)
        assert reply.status_code == 507
        assert reply.text.startswith("the answers cannot be stored: ")
    assert not site.file().exists()
    assert httpx.get(site.links["rater-01"]).status_code == 200
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(site.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert put(site, data).status_code == 204
    assert site.file().read_bytes() == data
    said = (site.folder / "log").read_text()
    assert said.count("answers cannot be stored in") == said.count("can be stored again") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_links_that_are_handed_out_can_be_opened(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path, free_port())
    key, folder = tmp_path / "packet.key.json", tmp_path / "packet"
    assert main(["packets", "serve", str(key), str(folder), "--host", host]) == EXIT_UNUSABLE
    assert f"--url http://{socket.gethostname()}:8000" in capsys.readouterr().err
    site.start("--host", host, "--url", f"http://localhost:{site.port}")
    try:
        for link in site.links.values():
            assert link.startswith(f"http://localhost:{site.port}/r/")
            assert httpx.get(link).status_code == 200
    finally:
        site.kill()


def test_the_organisers_page_shows_how_far_raters_are_and_no_answer(
    site: Site, chromium: Browser
) -> None:
    tasks = PACKET.key.raters["rater-01"].tasks
    hasty = [{**coarse(PACKET.key, task), "seconds": 1} for task in tasks[:2]]
    hasty[0]["comment"] = "a secret"
    assert put(site, saved(PACKET.key, "rater-01", hasty)).status_code == 204
    page = httpx.get(site.progress)
    assert page.headers["referrer-policy"] == "no-referrer"
    text = re.sub(r"<[^>]+>", " ", page.text)
    assert "2 of 6 tasks answered; 0 of 2 raters have finished" in text
    assert "2 of 2 tasks answered faster than" in text
    assert "none yet" in text  # from rater-02
    for hidden in ("secret", "better", *PACKET.key.models):
        assert hidden not in text
    token = site.links["rater-01"].rpartition("/")[2]
    for path in ("o/x", f"o/{token}"):
        assert httpx.get(f"http://127.0.0.1:{site.port}/{path}").status_code == 404
    organiser = site.progress.rpartition("/")[2]
    assert httpx.get(f"http://127.0.0.1:{site.port}/r/{organiser}").status_code == 404
    visit(chromium, site.progress)
    assert chromium.complaints() == []
    chromium.resize(390, 800)
    right = "document.querySelector('tbody .flag').getBoundingClientRect().right"
    assert chromium.run(right) <= 390
    chromium.resize(1280, 900)


def test_a_packet_is_served_once(killable: Site, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["packets", "serve", str(killable.folder / "packet.key.json"),
               str(killable.folder / "packet"), "--port", str(free_port())]  # fmt: skip
    assert main(command) == EXIT_UNUSABLE
    assert "this packet is already being served" in capsys.readouterr().err


def test_who_agrees_at_one_computer_has_agreed_at_another(
    tmp_path: Path, chromium: Browser
) -> None:
    texts = replace(
        shipped_texts(), consent="We keep it.", background=(BackgroundQuestion("Job?"),)
    )
    made = make_packet(items(2), Design(7, 1, 0, 0), None, {}, texts=texts)
    with Site(tmp_path, free_port(), made).served() as site:
        link = site.links["rater-01"]
        visit(chromium, link)
        chromium.point("[name='about-0']", click=True)
        chromium.type("curator")
        assert not site.file().exists()
        chromium.point("#agree", click=True)
        until(chromium, says(SENT), True)
        [sheet] = read_sheets(site.file().read_bytes(), made.key)
        assert sheet.about == RaterAbout(agreed=True, background=("curator",))
        visit(chromium, link)  # with nothing kept in the browser
        until(chromium, "document.getElementById('agree').checked", True)
        assert chromium.run("document.querySelector('[name=about-0]').value") == "curator"
        chromium.point("#begin", click=True)
        assert chromium.run("at") == 0


def test_axe_finds_nothing_on_the_organisers_page(site: Site, chromium: Browser) -> None:
    script = axe()
    visit(chromium, site.progress)
    for width in (1280, 390):
        chromium.resize(width, 800)
        assert violations(chromium, script) == []
    chromium.resize(1280, 900)
