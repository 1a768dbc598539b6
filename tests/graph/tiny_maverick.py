"""Writes a random Maverick checkpoint of 0.1 M parameters; run by Maverick's own interpreter.

    ENV_DIR/bin/python -I tiny_maverick.py FOLDER

It stores what the published one does, in the same forms: an encoder in half precision with a
sentencepiece tokenizer, and a Lightning checkpoint whose settings are omegaconf objects.
"""

# mypy: disable-error-code="import-not-found"

import json
import sys
from pathlib import Path

WORDS = "a the man woman boy girl dog lamp sits stands holds red old small and to our left he she"


def write_encoder(folder: Path) -> None:
    """A DeBERTa of two layers, and its tokenizer."""
    import sentencepiece
    import torch
    from transformers import DebertaV2Config, DebertaV2Model

    folder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([WORDS, WORDS.upper(), "abcdefghijklmnopqrstuvwxyz .,-'"] * 20),
        model_prefix=str(folder / "spm"), vocab_size=90, hard_vocab_limit=False, minloglevel=2,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3,
        bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", pad_piece="[PAD]",
    )  # fmt: skip
    settings = {"do_lower_case": False, "vocab_type": "spm"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = DebertaV2Config(
        vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, relative_attention=True, position_buckets=16,
        norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
        position_biased_input=False, type_vocab_size=0,
    )  # fmt: skip
    model = DebertaV2Model(config).half()
    settings = {k: v for k, v in config.to_dict().items() if k not in ("dtype", "torch_dtype")}
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "deberta-v2"}))
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def write_checkpoint(folder: Path) -> None:
    """A Lightning checkpoint of a Maverick around that encoder."""
    import torch
    from maverick.models.pl_modules import BasePLModule
    from omegaconf import OmegaConf

    settings = {
        "_target_": "models.model_mes.Maverick_mes",
        "huggingface_model_name": str(folder / "encoder"),
        "span_representation": "concat_start_end",
        "freeze_encoder": False,
    }
    hyper = {"model": OmegaConf.create(settings), "opt": OmegaConf.create({"lr": 2e-5})}
    module = BasePLModule(**hyper)
    checkpoint = {
        "state_dict": module.state_dict(),
        "hyper_parameters": hyper,
        "pytorch-lightning_version": "2.1.0",
    }
    torch.save(checkpoint, folder / "weights.ckpt")


def main() -> None:
    import torch

    torch.manual_seed(0)
    folder = Path(sys.argv[1])
    write_encoder(folder / "encoder")
    write_checkpoint(folder)


if __name__ == "__main__":
    main()
