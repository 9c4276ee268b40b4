"""Writes a folder: tokenizers, texts, and what the reference makes of them.

record.py FOLDER [SEED [SCALE]]: SEED chooses other texts, SCALE times as many at random.
"""

import base64
import gzip
import hashlib
import json
import os
import random
import sys

import corpus
import kinds


def pack(path, value):
    with open(path, "wb") as f:
        with gzip.GzipFile(filename="", mode="wb", fileobj=f, mtime=0, compresslevel=9) as g:
            g.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode())


def short(text):
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:12]


def encode(tok, text, special):
    try:
        return tok.encode(text, add_special_tokens=special).ids
    except Exception:
        return None


def decode(tok, ids, skip):
    """None where the reference itself fails: some decoders cannot take an empty text."""
    try:
        return tok.decode(ids, skip_special_tokens=skip)
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def cases(tok, texts, seed):
    rnd = random.Random(seed)
    out = {"ids": [], "special": [], "decoded": [], "skipped": [], "sequences": []}
    for text in texts:
        ids = encode(tok, text, False)
        out["ids"].append(ids)
        both = encode(tok, text, True)
        if ids is None:
            out["special"].append(None)
        else:  # only what comes before and after
            n = next((i for i in range(len(both) - len(ids) + 1) if both[i : i + len(ids)] == ids), 0)
            out["special"].append([both[:n], both[n + len(ids) :]])
        out["decoded"].append(short(decode(tok, ids or [1], False)))
        out["skipped"].append(short(decode(tok, both or [1], True)))
    size = tok.get_vocab_size()
    for _ in range(60):
        ids = [rnd.randrange(size + 3) for _ in range(rnd.randint(1, 16))]
        text = decode(tok, ids, False)
        if text is not None:
            out["sequences"].append([ids, text])
    return out


def main(folder, seed=8, scale=1):
    texts, broken = corpus.texts(seed, scale)
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".json.gz"):
            os.remove(os.path.join(folder, name))
    pack(os.path.join(folder, "texts.json.gz"), {"texts": texts, "bytes": [base64.b64encode(b).decode() for b in broken]})
    texts = texts + [b.decode("utf-8", "replace") for b in broken]
    for i, (name, tok) in enumerate(kinds.kinds().items()):
        value = {"tokenizer": json.loads(tok.to_str())}
        tok = type(tok).from_str(tok.to_str())
        value.update(cases(tok, texts, i))
        pack(os.path.join(folder, "kind_" + name + ".json.gz"), value)
        print(name, tok.get_vocab_size(), "tokens,", sum(len(x or []) for x in value["ids"]), "ids,", sum(x is None for x in value["ids"]), "refused")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
