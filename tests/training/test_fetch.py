"""Everything a run downloads is fetched by one command, and the run then asks no network."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from datasets import Dataset
from huggingface_hub import constants

from posh_reward.cli import main
from posh_reward.errors import ConfigError
from posh_reward.shipped import shipped_path
from posh_reward.training.fetch import Asset, is_here, list_assets
from recipes.demo import tiny_qwen
from tests.datasets.hub_layout import FEATURES, write_docent
from tests.models.tiny import byte_tokenizer, tiny_model
from tests.training.fake_hub import COMMIT, FakeHub

ROOT = Path(__file__).resolve().parents[2]


def test_the_papers_run_needs_seven_downloads() -> None:
    assets = list_assets(str(shipped_path("configs/dapo/qwen2_5_vl_7b.yaml")))
    assert [(each.role, each.kind) for each in assets] == [
        ("policy", "model"), ("dataset", "dataset"), ("judge", "model"), ("parser", "spacy"),
        ("coreference", "environment"), ("coreference", "model"), ("coreference", "model"),
    ]  # fmt: skip
    assert {"Qwen/Qwen2.5-VL-7B-Instruct", "amitha/docent", "Qwen/Qwen3-14B", "en_core_web_trf",
            "sapienzanlp/maverick-mes-ontonotes", "microsoft/deberta-v3-large"} <= {
        each.name for each in assets
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "roles"),
    [
        ("configs/sft/qwen2_5_vl_7b.yaml", ["policy", "dataset"]),
        ("configs/sft/qwen2_5_vl_7b_lora.yaml", ["policy", "dataset"]),  # by its `like`
        ("configs/dapo/qwen2_5_vl_7b_served.yaml",
         ["policy", "dataset", "parser", *["coreference"] * 3]),
        ("configs/distill/qwen3_0_6b.yaml", ["policy"]),  # its questions are collected here
        ("configs/distill/qwen3_4b_lora.yaml", ["policy"]),
        ("configs/judge/cascade.yaml", ["judge"]),
        ("configs/judge/server.yaml", []),
        ("configs/metric/embedded_graphs.yaml", ["judge"]),
    ],
)  # fmt: skip
def test_only_what_a_configuration_names_is_fetched(config: str, roles: list[str]) -> None:
    assert [each.role for each in list_assets(str(shipped_path(config)))] == roles


def test_columns_of_a_local_table_are_checked_without_a_download(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text("image,caption\na.png,A dog.\n")
    config = tmp_path / "a.yaml"
    config.write_text(f"model_name_or_path: {tmp_path}\ndataset_name: {tmp_path / 'mine.csv'}\n")
    assert main(["fetch", "--check", "--config", str(config)]) == 2
    assert "has no column 'reference'" in capsys.readouterr().err
    column = ["--", "--reference_column", "caption"]
    assert main(["fetch", "--check", "--config", str(config), *column]) == 0


def test_both_models_of_a_cascade_are_fetched(tmp_path: Path) -> None:
    config = tmp_path / "cascade.yaml"
    config.write_text(
        "name: cascade\njudge: vllm\nfirst: {name: vllm, model: Qwen/Qwen3-0.6B}\ndoubt: 0.3\n"
    )
    names = [each.name for each in list_assets(str(config))]
    assert names == ["Qwen/Qwen3-14B", "Qwen/Qwen3-0.6B"]


def test_a_path_that_is_not_there_is_no_name_on_the_hub(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("model_name_or_path: ./runs/sft\ndataset_name: scenes\n")
    with pytest.raises(ConfigError, match=r"no file or folder './runs/sft'"):
        list_assets(str(config))
    config.write_text(f"model_name_or_path: {tmp_path}\ndataset_name: scenes\n")
    assert list_assets(str(config)) == []


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judge")
    tokenizer = byte_tokenizer()
    tiny_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "code.py").write_text("raise SystemExit('code of theirs was run')")
    return folder


def posh_reward(
    *flags: str, before: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [*before, sys.executable, "-m", "posh_reward.cli", *flags]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=200
    )


@pytest.fixture
def hub(judge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with a judge, a cache of its own in ``hub`` and the judge's settings."""
    (tmp_path / "judge.json").write_text('{"name": "transformers", "model": "someone/judge"}')
    with FakeHub({"someone/judge": judge}) as made:
        monkeypatch.setattr(constants, "ENDPOINT", made.endpoint)
        files = f"{made.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub" / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield made


def test_what_is_here_is_not_asked_for_again(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(*flags: str) -> str:
        """The judge's state as printed."""
        main(["fetch", "--config", str(tmp_path / "judge.json"), *flags])
        return "".join(capsys.readouterr())

    assert "judge        someone/judge: missing" in fetch("--check")
    assert hub.requests == []
    assert "judge        someone/judge: fetched" in fetch()
    assert not any("code.py" in request for request in hub.requests), "no code is fetched"
    hub.requests.clear()
    assert "someone/judge: here" in fetch()
    assert hub.requests == []
    [shard] = (tmp_path / "hub").rglob("snapshots/*/model.safetensors")
    shard.unlink()
    assert "someone/judge: missing" in fetch("--check")
    assert "someone/judge: fetched" in fetch()


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_what_is_fetched_is_all_that_a_run_without_network_needs(tmp_path: Path) -> None:
    """No network at all, not even to this machine: a namespace of its own, without interfaces."""
    if subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        pytest.skip("a process without network needs user namespaces")
    settings, scores = str(tmp_path / "judge.json"), tmp_path / "scores.jsonl"
    assert main(["fetch", "--config", settings]) == 0
    table = tmp_path / "pairs.jsonl"
    table.write_text('{"generation": "A dog sits.", "reference": "A red dog sits."}\n')
    scored = posh_reward(
        "score", str(table), "--unchecked", "--judge", settings, "-o", str(scores),
        before=["unshare", "-rn"], HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hub"),
    )  # fmt: skip
    assert scored.returncode == 0, scored.stderr
    row = json.loads(scores.read_text())
    assert row["f1"] is not None
    assert f"someone/judge@{COMMIT}" in row["signature"]


READ = """
import sys
from recipes import sft
from posh_reward.datasets.load_dataset import load_images
from posh_reward.errors import InputError
from posh_reward.training.processors import load_processor
processor = load_processor(sys.argv[1], max_pixels=37632)
images = sft.prepare("amitha/docent", "validation", processor=processor)
print(len(images), images[0]["image"].size)
try:
    sft.prepare("amitha/docent", "test", processor=processor)
except InputError as error:
    print(error)
try:
    load_images("amitha/docent", "test")
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_the_hubs_dataset_is_resized_by_fetch_and_then_only_read(tmp_path: Path) -> None:
    tiny_qwen.build(tmp_path / "tiny", warm_up_steps=0, pretrain_steps=0)
    config = tmp_path / "sft.yaml"
    config.write_text(
        f"model_name_or_path: {tmp_path / 'tiny'}\ndataset_name: amitha/docent\n"
        "max_pixels: 37632\neval_strategy: epoch\n"
    )
    home = {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_DISABLE_XET": "1"}
    docent = write_docent(tmp_path / "docent")
    test = docent / "data" / "test-00000-of-00001.parquet"
    rows = Dataset.from_parquet(str(test)).to_list()
    Dataset.from_list([*rows[:3], rows[3] | {"image": None}], features=FEATURES).to_parquet(test)
    with FakeHub({}, {"amitha/docent": docent}) as hub:
        done = posh_reward("fetch", "--config", str(config), HF_ENDPOINT=hub.endpoint,
                           HF_HUB_OFFLINE="0", **home)  # fmt: skip
    assert "amitha/docent: fetched" in done.stderr, done.stderr
    assert "amitha/docent, validation: 4 images" in done.stderr
    prepared = sorted((tmp_path / "hub" / "datasets").rglob("*.arrow"))
    read = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "tiny")], check=False, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **home},
        capture_output=True,
    )  # fmt: skip
    resized, *refused = read.stdout.splitlines()
    assert resized == "4 (224, 168)", read.stderr
    assert "1 of 4 images that cannot be read: test-uuid-3 (there is none)" in refused[0]
    assert "'amitha/docent', split 'test' has 1 of 4 images that cannot" in refused[1]
    assert sorted((tmp_path / "hub" / "datasets").rglob("*.arrow")) == prepared


def test_a_prepared_dataset_is_found_whatever_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    asset = Asset("dataset", "dataset", "SomeOne/MyPaintings")
    assert not is_here(asset)
    prepared = tmp_path / "SomeOne___my_paintings" / "default" / "0.0.0" / "0123"
    prepared.mkdir(parents=True)  # as datasets names it: only the last part in snake case
    (prepared / "dataset_info.json").touch()
    assert is_here(asset)


def test_a_hub_that_is_not_there_is_named_and_nothing_hangs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "judge.json"
    settings.write_text(json.dumps({"name": "transformers", "model": "someone/judge"}))
    done = posh_reward("fetch", "--config", str(settings), HF_HOME=str(tmp_path),
                       HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="0")  # fmt: skip
    assert done.returncode == 2
    fetching, failed, *rest = done.stderr.splitlines()
    assert fetching.endswith("someone/judge: fetching")
    assert "someone/judge: failed: someone/judge cannot be fetched" in failed
    assert failed.endswith("check the name, the network and, for a gated model, `hf auth login`")
    assert rest == []
    assert main(["fetch", "--config", str(settings)]) == 2
    assert "HF_HUB_OFFLINE is set: unset it to fetch" in capsys.readouterr().err


def test_a_parser_that_cannot_be_fetched_is_one_line(tmp_path: Path) -> None:
    """Of spaCy's traceback, only its last line."""
    (tmp_path / "metric.yaml").write_text("parser: en_core_web_none\n")
    done = posh_reward("fetch", "--config", str(tmp_path / "metric.yaml"), HF_HUB_OFFLINE="0")
    assert done.returncode == 2
    failed = [line for line in done.stderr.splitlines() if "en_core_web_none: failed" in line]
    assert len(failed) == 1
    assert "Traceback" not in done.stderr


def test_the_recipes_flags_name_other_downloads() -> None:
    config = "configs/dapo/qwen2_5_vl_7b.yaml"
    flags = ["--model_name_or_path", "someone/else", "--use_peft", "--judge", "embedded"]
    named = {asset.role: asset.name for asset in list_assets(str(ROOT / config), flags)}
    assert (named["policy"], named["dataset"]) == ("someone/else", "amitha/docent")
    assert "judge" not in named


def test_without_the_hubs_client_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it were not installed
    assert (
        main(["fetch", "--config", str(ROOT / "configs/dapo/qwen2_5_vl_7b.yaml"), "--check"]) == 2
    )
    assert "fetching needs huggingface_hub: pip install" in capsys.readouterr().err
