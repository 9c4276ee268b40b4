"""Makes the model that the engines of these tests serve: make_model.py FOLDER.

A Llama of two small layers with random weights and a byte-level tokenizer with no
merges: every byte is a token. What it says makes no sense and never ends by itself,
but vLLM runs it as any other model, and with temperature 0 a prompt has one answer.
Needs no model hub.
"""

from __future__ import annotations

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SEED = 7
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 128, 2, 4, 2, 32, 256
CONTEXT = 32768
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for part in m['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def alphabet() -> list[str]:
    """Return the 256 letters that stand for the bytes, in the order of their tokens."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def printable() -> set[int]:
    """Return the tokens of the printable ASCII characters, which stand for themselves."""
    return {i for i, c in enumerate(alphabet()) if "!" <= c <= "~"}


def write_tokenizer(folder: pathlib.Path) -> int:
    """Write the tokenizer and return the size of its vocabulary."""
    vocab = {c: i for i, c in enumerate(alphabet())}
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tok, eos_token=SPECIAL[0], pad_token=SPECIAL[0], clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return tok.get_vocab_size()


def weights(vocab: int) -> dict[str, torch.Tensor]:
    """Make the weights. Only printable ASCII wins: the others' logits are zero."""
    gen = torch.Generator().manual_seed(SEED)

    def rand(*shape: int, scale: float = 0.1) -> torch.Tensor:
        return torch.randn(*shape, generator=gen) * scale

    out = {
        "model.embed_tokens.weight": rand(vocab, HIDDEN, scale=1.0),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": rand(vocab, HIDDEN),
    }
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name, rows, columns in (
            ("self_attn.q_proj", HEADS * HEAD, HIDDEN),
            ("self_attn.k_proj", KV_HEADS * HEAD, HIDDEN),
            ("self_attn.v_proj", KV_HEADS * HEAD, HIDDEN),
            ("self_attn.o_proj", HIDDEN, HEADS * HEAD),
            ("mlp.gate_proj", INNER, HIDDEN),
            ("mlp.up_proj", INNER, HIDDEN),
            ("mlp.down_proj", HIDDEN, INNER),
        ):
            out[f"{layer}{name}.weight"] = rand(rows, columns)
        out[f"{layer}input_layernorm.weight"] = torch.ones(HIDDEN)
        out[f"{layer}post_attention_layernorm.weight"] = torch.ones(HIDDEN)
    silent = [i for i in range(vocab) if i not in printable()]
    out["lm_head.weight"][silent] = 0
    return out


def config(vocab: int) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "vocab_size": vocab,
        "eos_token_id": vocab - len(SPECIAL),
    }


def main(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    vocab = write_tokenizer(folder)
    save_file(weights(vocab), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config(vocab), indent=1))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
