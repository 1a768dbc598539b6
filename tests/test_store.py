"""The store under real faults: killed writers, full disks, damaged files, eight processes."""

import multiprocessing
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from posh_reward import store
from posh_reward.store import MIN_STORE_BYTES, Store
from tests.processes import start
from tests.stores import items, value_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.sqlite")


def check_sound(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def on_disk(path: str) -> int:
    files = (Path(path + ending) for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


def run(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = (sys.executable, "-W", "error", "-c", code, *arguments)
    return start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_what_is_put_is_there_for_others(path: str) -> None:
    Store(path).put("verdict", "a", items(600))
    other = Store(path)
    assert other.get("verdict", "a", [*items(600), "nobody"]) == items(600)
    assert (other.hits, other.misses, other.dropped) == (600, 1, 0)
    other.put("verdict", "a", {"k1": "new"})
    assert Store(path).get("verdict", "a", ["k1"]) == {"k1": "new"}
    assert Store(path).get("verdict", "a", []) == {}


WRITER = """
import sys
from posh_reward.store import Store
from tests.stores import items
path, name, puts = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = Store(path)
for i in range(puts):
    store.put("verdict", "a", items(50, f"{name}.{i}."))
    assert len(store.get("verdict", "a", list(items(50, f"{name}.{i}.")))) == 50
print(store.dropped)
"""


def test_eight_processes_at_once(path: str) -> None:
    writers = [run(WRITER, path, name, 8) for name in range(8)]
    said = [writer.communicate(timeout=60) for writer in writers]
    assert said == [("0\n", "")] * 8
    there = Store(path)
    for name in range(8):
        for i in range(8):
            wanted = items(50, f"{name}.{i}.")
            assert there.get("verdict", "a", list(wanted)) == wanted
    check_sound(path)


def test_eight_make_the_tables_at_once(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # tables appear between two statements of another's check
    try:
        for name in range(30):
            stores = [Store(tmp_path / f"{name}.sqlite") for _ in range(8)]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda kept: kept.put("verdict", "a", {"k": "v"}), stores))
            assert [kept.dropped for kept in stores] == [0] * 8
    finally:
        sys.setswitchinterval(before)


def forked(kept: Store, name: str) -> None:
    kept.put("verdict", "a", items(20, name))
    assert kept.get("verdict", "a", ["k0"]) == {"k0": value_of("k0")}


def test_a_fork_opens_its_own(path: str) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    kept = Store(path)
    kept.put("verdict", "a", items(20))
    children = [
        multiprocessing.get_context("fork").Process(target=forked, args=(kept, name))
        for name in "abcd"
    ]
    for child in children:
        child.start()
        kept.put("verdict", "a", items(20, "parent"))
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    for name in ("k", "parent", *"abcd"):
        assert kept.get("verdict", "a", list(items(20, name))) == items(20, name)
    check_sound(path)


BUSY = """
import sys, itertools
from posh_reward.store import Store
from tests.stores import items
store = Store(sys.argv[1])
for i in itertools.count(int(sys.argv[2])):
    store.put("verdict", "a", items(100, f"{i}."))
    print(i, flush=True)
"""


def kill_in_the_middle(path: str, first: int, delay: float) -> int:
    """Kills a writer after a while; how many of its puts had come back."""
    writer = run(BUSY, path, first)
    assert writer.stdout is not None
    lines = [writer.stdout.readline()]  # it is at work
    time.sleep(delay)
    writer.kill()
    rest, err = writer.communicate()
    assert not err
    return len([line for line in (*lines, *rest.splitlines(True)) if line.endswith("\n")])


def test_a_killed_writer_leaves_whole_what_it_had_put(path: str) -> None:
    rng = random.Random(0)
    first = 0
    for _ in range(4):
        done = kill_in_the_middle(path, first, rng.random() * 0.1)
        reader = Store(path)
        for i in (first, first + done // 2, first + done - 1):
            assert reader.get("verdict", "a", list(items(100, f"{i}."))) == items(100, f"{i}.")
        for i in range(first, first + done + 2):
            keys = list(items(100, f"{i}."))
            assert len(reader.get("verdict", "a", keys)) in (
                (100,) if i < first + done else (0, 100)
            )
        reader.close()
        check_sound(path)
        first += done + 2


def in_a_mount(mount: str, code: str, *arguments: object) -> str:
    """Runs ``code`` where ``mount`` (shell words) has been done, as nobody but itself sees."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare here, so no disk to fill")
    words = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mount} || exit 77; exec "$@"', "sh", *words],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"no mounting here: {ran.stderr.strip()[-200:]}")
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


FULL = """
import os, sys
from posh_reward import store
from tests.stores import items
store.RETRY_SECONDS = 0.0
path, filler = sys.argv[1] + "/store.sqlite", sys.argv[1] + "/filler"
with open(filler, "wb") as file:
    while True:
        try:
            os.write(file.fileno(), bytes(4096))
        except OSError:
            break
    kept, i = store.Store(path), 0
    kept.put("verdict", "a", items(50))
    assert kept.get("verdict", "a", list(items(50))) == {}
    assert kept.dropped == 50
    os.ftruncate(file.fileno(), 1_000_000)
kept.dropped = 0
while not kept.dropped and i < 500:
    kept.put("verdict", "a", items(50, f"{i}.", 400))
    i += 1
assert i > 3 and kept.dropped == 50, (i, kept.dropped)
for j in range(i - 1):
    assert kept.get("verdict", "a", list(items(50, f"{j}."))) == items(50, f"{j}.", 400), j
kept.put("verdict", "a", items(50, "full", 40_000))
assert kept.dropped == 100
other = store.Store(path)
assert other.get("verdict", "a", list(items(50, "0."))) == items(50, "0.", 400)
os.remove(filler)
kept.put("verdict", "a", items(50, "again"))
assert kept.dropped == 100
assert other.get("verdict", "a", list(items(50, "again"))) == items(50, "again")
"""


def test_a_full_disk_drops_writes_until_there_is_room(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=3m tmpfs {tmp_path}"
    said = in_a_mount(mount, FULL, tmp_path)
    assert said.count("the store") == 1
    assert "cannot be written" in said


READ_ONLY = """
import os, sys
from posh_reward.store import Store
from tests.stores import items
if os.geteuid() == 0 and sys.argv[2] == "stranger":  # whom permissions bind
    os.setegid(65534)
    os.seteuid(65534)
kept = Store(sys.argv[1])
for _ in range(2):
    assert kept.get("verdict", "a", list(items(100))) == items(100), str(kept)
    kept.put("verdict", "a", {"new": "answer"})
assert kept.dropped == 2
"""


KILLED = """
import os, sys
from posh_reward.store import Store
from tests.stores import items
kept = Store(sys.argv[1])
kept.put("verdict", "a", items(100))
os.kill(os.getpid(), 9)
"""


def test_a_read_only_disk_gives_all_answers(path: str) -> None:
    sound_file(path)
    folder = Path(path).parent
    mount = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    said = in_a_mount(mount, READ_ONLY, path, "owner")
    assert said.count("the store") == said.count("new answers are not kept") == 1


@pytest.mark.parametrize("left", ["closed", "killed"])
@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o555), (0o644, 0o555), (0o444, 0o777)])
def test_who_may_not_write_gets_all_answers(left: str, file: int, folder: int) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are closed to others
        path = f"{name}/what ? # % store.sqlite"
        if left == "closed":
            sound_file(path)
        else:
            writer = run(KILLED, path)
            writer.wait()
        for each in Path(name).iterdir():
            each.chmod(file)
        Path(name).chmod(folder)
        reader = run(READ_ONLY, path, "stranger")
        said = reader.communicate()[1]
        assert reader.returncode == 0, said
        assert said.count("the store") == said.count("new answers are not kept") == 1
        Path(name).chmod(0o755)


def damage(path: Path, how: str) -> None:
    whole = bytearray(path.read_bytes())
    rng = random.Random(0)
    if how == "garbage":
        whole = bytearray(rng.randbytes(len(whole)))
    elif how == "half":
        whole = whole[: len(whole) // 2]
    elif how == "header":
        whole[:16] = b"x" * 16
    else:
        whole[4096:] = bytes(len(whole) - 4096)
    path.write_bytes(bytes(whole))


def sound_file(path: str) -> Path:
    kept = Store(path)
    kept.put("verdict", "a", items(1500))
    kept.close()
    return Path(path)


@pytest.mark.parametrize("how", ["garbage", "half", "header", "zeros"])
def test_a_damaged_file_is_left_alone_with_one_warning(
    path: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(sound_file(path), how)
    kept = Store(path)
    for _ in range(2):
        for i in range(0, 1500, 100):
            found = kept.get("verdict", "a", list(items(1500))[i : i + 100])
            assert found.items() <= items(1500).items()
            kept.put("verdict", "a", items(10, f"new{i}"))
    assert kept.dropped > 0
    [record] = caplog.records
    assert f"rm {path}*" in record.getMessage()


def test_one_bad_value_is_missing(path: str) -> None:
    sound_file(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE kept SET value = 'text' WHERE used = 1")
        connection.execute("UPDATE kept SET value = x'' WHERE used = 2")
        connection.execute(
            "UPDATE kept SET value = (SELECT value FROM kept WHERE used = 4) WHERE used = 3"
        )
        connection.commit()
    assert len(Store(path).get("verdict", "a", list(items(1500)))) == 1497


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("PRAGMA user_version = 2", "newer posh-reward (version 2"),
        ("PRAGMA application_id = 7", "another program"),
    ],
)
def test_a_file_of_another_version_or_program_stays_as_it_was(
    path: str, statement: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    sound_file(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = Path(path).read_bytes()
    kept = Store(path)
    assert kept.get("verdict", "a", list(items(5))) == {}
    kept.put("verdict", "a", items(5))
    assert (kept.misses, kept.dropped) == (5, 5)
    assert [why in record.getMessage() for record in caplog.records] == [True]
    assert Path(path).read_bytes() == before


def test_a_locked_file_costs_answers_not_the_run(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound_file(path)
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(store, "RETRY_SECONDS", 0.3)
    kept = Store(path)
    assert len(kept.get("verdict", "a", list(items(5)))) == 5
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for i in range(20):
            kept.put("verdict", "a", items(5, f"{i}."))
            assert len(kept.get("verdict", "a", list(items(5)))) == 5
    assert kept.dropped == 100
    assert ["locked" in record.getMessage() for record in caplog.records] == [True]
    time.sleep(0.3)
    kept.put("verdict", "a", items(5, "later"))
    assert len(kept.get("verdict", "a", list(items(5, "later")))) == 5


def test_the_bound_holds_and_what_is_used_stays(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        store, "MIN_BYTES_TO_COMPRESS", 10**9
    )  # packing would take most of the time
    kept = Store(path, MIN_STORE_BYTES)
    dear = items(20, "dear", 2000)
    kept.put("graph", "a", dear)
    most = 0
    for i in range(80):
        kept.put("verdict", "a", items(32, f"{i}.", 16_000))
        assert kept.get("graph", "a", list(dear)) == dear
        most = max(most, on_disk(path))
    assert MIN_STORE_BYTES / 2 < most <= MIN_STORE_BYTES * 1.5
    assert kept.get("verdict", "a", list(items(32, "0."))) == {}
    assert len(kept.get("verdict", "a", list(items(32, "79.")))) == 32
    check_sound(path)


def test_a_link_and_its_target_are_one_store(path: str, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    kept = Store(link)
    kept.put("verdict", "a", items(200))
    assert Store(path).get("verdict", "a", list(items(200))) == items(200)
    assert not Path(f"{link}-wal").exists()
