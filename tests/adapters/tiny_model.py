"""A model of a few thousand weights that writes descriptions, since none can be downloaded here."""

import random
from pathlib import Path
from typing import Any

PROMPT = [{"role": "user", "content": "Describe."}]
LOOKS, COATS = ["tall", "red", "green", "short"], ["dress", "coat", "hat"]
WHO, ACTS, THINGS = ["woman", "man", "dog", "robot"], ["holds", "drops"], ["basket", "book"]
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def description(draw: Any) -> str:
    """One of 1,536 descriptions; a quarter of them is about a robot."""
    return (
        f"A {draw(LOOKS)} {draw(WHO)} in a {draw(LOOKS)} {draw(COATS)} "
        f"{draw(ACTS)} a {draw(THINGS)}."
    )


def tiny() -> tuple[Any, Any]:
    """The model, untrained, and its tokenizer, for which each word of a description is a token."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    special = ["<pad>", "<|im_start|>", "<|im_end|>"]
    draw = random.Random(0).choice
    texts = [description(draw) for _ in range(500)] + ["user\nDescribe.\nassistant\n"] * 5
    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator(texts, 600, special_tokens=special, show_progress=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pairs, pad_token="<pad>", eos_token="<|im_end|>", chat_template=CHAT,
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, pad_token_id=0, eos_token_id=2,
        bos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config), tokenizer


def write_describer(folder: Path) -> None:
    """Write the model and its tokenizer after 150 steps on drawn descriptions: two seconds."""
    import torch

    model, tokenizer = tiny()
    draw = random.Random(0).choice
    start = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, tokenize=False)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        texts = [f"{start}{description(draw)}<|im_end|>" for _ in range(16)]
        ids = torch.tensor(tokenizer(texts)["input_ids"])  # all have as many words
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
