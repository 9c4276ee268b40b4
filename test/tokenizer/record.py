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

from tokenizers import Regex
from tokenizers import pre_tokenizers as P

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


PATTERNS = [kinds.LLAMA3, kinds.QWEN2, kinds.CL100K, kinds.O200K, kinds.TEKKEN, kinds.KIMI, kinds.BLOOM, kinds.CLIP, kinds.POEM, *kinds.DEEPSEEK, *kinds.DEEPSEEK_CODER] + r"""
a|ab|abc
(?:a|ab)(?:c|bcd)?
a*?b
(a+)+b
(?:a|b)*?c|x*
(?:|a)+b?
(?:a?){3}b
a{2,3}?
a{,2}b
a{2}?b
(?>a+)b|a
a++b|\w
x*
^\S+|\S+$
^.*$
(?m)a.b
(?m:^.+)
\A\s*|\s*\z
\s+\Z
\b\w
\B.
\w+(?=\s)
(?<=a)b|(?<!a)c
(?<=ab|c)\w
(?<![\p{L}\p{N}])\p{N}+
(?i:strasz|k|ſ|é)
(?i)[a-fk]+
(?i:[^a-z\s])+
(?i:\p{Lu}[A-Zé])
(?i:s)(?-i:t)
(?i)d(?:o|ON)'t
[^\W\d_]+
[[:alpha:]]+|[[:^space:]]
[[:punct:]]+
[\p{P}\p{S}]+
\p{^L}+
\P{Lu}+
[^\P{L}]+
[a-z&&[^aeiou]]+
[\w&&[^\p{Han}\d]]+
[\x{4e00}-\x{9fff}\u3040-\u30ff]+
\x41|\t|\n|\r\n
[\]\[\-^]+|[-a]|[a-]
[]a]
[\s\S]{4}
\h{2,}
\p{Alpha}\p{Digit}|\p{Alnum}
\p{Upper}+|\p{Lower}+
\p{Cyrillic}+|\p{Greek}+|\p{Arabic}+|\p{Thai}+|\p{Hiragana}+
\p{Mn}+|\p{Sc}|\p{So}+
\p{Letter}\p{Nonspacing_Mark}*
(?x: a \s b # comment
)
(?# nothing)a
(?<name>a)b
{a}|a{b
a{1,2}{2}
(?=a)\w|(?!a)\w
""".strip().replace("\\\\", "\\").split("\n")


def patterns(texts):
    """What each pattern matches, as a hash; null where the reference does not know the pattern."""
    out = []
    for p in PATTERNS:
        try:
            pre = P.Split(Regex(p), "removed", invert=True)
        except Exception as e:
            print("not a pattern:", p, e)
            out.append([p, None])
            continue
        out.append([p, [short("|".join("%d-%d" % at for _, at in pre.pre_tokenize_str(t))) for t in texts]])
    return out


def main(folder, seed=8, scale=1):
    texts, broken = corpus.texts(seed, scale)
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".json.gz"):
            os.remove(os.path.join(folder, name))
    pack(os.path.join(folder, "texts.json.gz"), {"texts": texts, "bytes": [base64.b64encode(b).decode() for b in broken]})
    few = [t for t in texts if len(t) < 400] + ["aaab abab abc xabcd aab AAB b", "Straße STRASSE k K ſ S É é don't DON'T dO", "a\nb\r\nc\n", "a b", "ab12 cab"]
    pack(os.path.join(folder, "patterns.json.gz"), {"texts": few, "patterns": patterns(few)})
    texts = texts + [b.decode("utf-8", "replace") for b in broken]
    for i, (name, tok) in enumerate(kinds.kinds().items()):
        value = {"tokenizer": json.loads(tok.to_str())}
        tok = type(tok).from_str(tok.to_str())
        value.update(cases(tok, texts, i))
        pack(os.path.join(folder, "kind_" + name + ".json.gz"), value)
        print(name, tok.get_vocab_size(), "tokens,", sum(len(x or []) for x in value["ids"]), "ids,", sum(x is None for x in value["ids"]), "refused")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
