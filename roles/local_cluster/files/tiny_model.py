"""Makes a Qwen2 of 0.2 M parameters with a tokenizer of its own, and rows of training text for it.

    python3 tiny_model.py /data ROWS

It runs inside the image with ms-swift: the machine itself needs no PyTorch.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SUBJECTS = (
    "The rank",
    "A node",
    "The trainer",
    "One link",
    "The switch",
    "Every step",
    "This cluster",
    "The optimizer",
)
VERBS = ("waits for", "sends to", "reads from", "measures", "overtakes", "shares", "follows", "checks")
OBJECTS = (
    "the gradient",
    "its neighbour",
    "the next batch",
    "a checkpoint",
    "the slowest peer",
    "shared memory",
    "the clock",
)
FILES = 3


def rows(count: int) -> list[str]:
    """Sentences of a small language, always the same ones."""
    dice = random.Random(7)
    return [
        " ".join(
            f"{dice.choice(SUBJECTS)} {dice.choice(VERBS)} {dice.choice(OBJECTS)} {dice.randrange(100)} times."
            for _number in range(dice.randint(3, 9))
        )
        for _number in range(count)
    ]


def write_rows(folder: Path, texts: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(FILES):
        messages = [{"messages": [{"role": "assistant", "content": text}]} for text in texts[part::FILES]]
        lines = "".join(json.dumps(message) + "\n" for message in messages)
        (folder / f"pt_{part}.jsonl").write_text(lines, encoding="utf-8")


def make_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[0], pad_token=special[0])


def make_model(vocabulary: int) -> Qwen2ForCausalLM:
    torch.manual_seed(7)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    return Qwen2ForCausalLM(config)


def main() -> None:
    data, count = Path(sys.argv[1]), int(sys.argv[2])
    texts = rows(count)
    write_rows(data / "train_data", texts)
    target = data / "models" / "tiny-qwen2"
    tokenizer = make_tokenizer(texts)
    tokenizer.save_pretrained(target)
    model = make_model(len(tokenizer))
    model.save_pretrained(target)
    sys.stdout.write(
        f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens, {count} rows\n"
    )


if __name__ == "__main__":
    main()
