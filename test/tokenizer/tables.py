"""Writes tokenizer/ucd/tables.bin: what the reference knows of every code point.

The tokenizers package takes Unicode data from five places of different age
(Oniguruma, Rust's standard library and regex crate, unicode-normalization,
unicode_categories, unicode-segmentation). Go's own tables are of yet another
one. So each property is asked of the reference itself, code point by code point.
"""

import struct
import sys

from tokenizers import Regex
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, POINTS))

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()


def matched(pattern):
    """The code points that pattern matches, by the reference's regex engine."""
    found = P.Split(Regex(pattern), "removed", True).pre_tokenize_str(ALL)
    return set(map(ord, "".join(piece for piece, _ in found)))


def removed(normalizer, text):
    return set(map(ord, text)) - set(map(ord, normalizer.normalize_str(text)))


def left(pre_tokenizer):
    return set(POINTS) - set(map(ord, "".join(p for p, _ in pre_tokenizer.pre_tokenize_str(ALL))))


def segments(normalizer, make, end="\x1f"):
    """What becomes of make(c) for every c, at one call for many."""
    out = {}
    for i in range(0, len(POINTS), 4096):
        part = [c for c in POINTS[i : i + 4096] if c != ord(end)]
        text = normalizer.normalize_str("".join(make(chr(c)) + end for c in part))
        for c, piece in zip(part, text.split(end)):
            out[c] = piece
    return out


def charsmap():
    """A character map that turns "a", and whatever its cluster holds, into X."""
    units = [0] * 0x400
    units[0] = 0x100 << 10
    units[0x161] = 0x61 | 1 << 8 | 0x361 << 10
    units[0x200] = 1 << 31
    return struct.pack("<I", 4 * len(units)) + struct.pack("<%dI" % len(units), *units) + b"X\0"


def scripts():
    """A number for each class of UnicodeScripts; 0 joins either side."""
    pre = P.UnicodeScripts()

    def apart(a, b):
        return len(pre.pre_tokenize_str(chr(a) + chr(b))) > 1

    reps = [ord("a"), ord("я")]
    out = bytearray(0x110000)
    last = None
    for c in POINTS:
        if last is not None and not apart(reps[last], c) and apart(reps[1 - last if last < 2 else 0], c):
            out[c] = last + 1
            continue
        if not apart(reps[0], c) and not apart(reps[1], c):
            continue
        for i, r in enumerate(reps):
            if not apart(r, c):
                last = i
                break
        else:
            reps.append(c)
            last = len(reps) - 1
        out[c] = last + 1
    print(len(reps), "scripts")
    return out


def trie(values):
    blocks, index = {}, []
    for i in range(0, 0x110000, 256):
        index.append(blocks.setdefault(bytes(values[i : i + 256]), len(blocks)))
    return struct.pack("<H", len(blocks)) + struct.pack("<%dH" % len(index), *index) + b"".join(blocks)


def bits(*sets):
    out = bytearray(0x110000)
    for i, s in enumerate(sets):
        for c in s:
            out[c] |= 1 << i
    return out


def main(path):
    category = bytearray(0x110000)
    for i, name in enumerate(CATEGORIES):
        for c in matched(r"\p{%s}+" % name):
            category[c] = i + 1

    words = set()
    for i in range(0, len(POINTS), 4096):
        part = "".join("a" + chr(c) + " " for c in POINTS[i : i + 4096])
        for piece, _ in P.Whitespace().pre_tokenize_str(part):
            if piece[0] == "a":
                words.update(map(ord, piece[1:]))

    nfd = {c: s for c, s in segments(N.NFD(), str).items() if s != chr(c)}
    nfkd = {c: s for c, s in segments(N.NFKD(), str).items() if s != chr(c)}
    nfc = segments(N.NFC(), str)
    plain = "".join(chr(c) for c in POINTS if c not in nfd)
    bert = N.BertNormalizer
    mapped = segments(N.Precompiled(charsmap()), lambda c: "a" + c)
    late = segments(N.NFD(), lambda c: c + "\u0334")
    early = segments(N.NFD(), lambda c: "\u0301" + c)
    low = segments(N.Lowercase(), str)

    flags = bits(
        words,
        numeric(),
        left(P.Punctuation("removed")),
        {c for c, s in segments(bert(True, False, False, False), str, "|").items() if s == ""},
        removed(bert(False, False, True, False), plain),
        removed(N.StripAccents(), ALL),
        {c for c, s in mapped.items() if s == "X" and len(chr(c).encode()) < 5},
        matched(r"\p{Extended_Pictographic}+"),
    )
    norm = bits(
        {c for c in late if c not in nfd and (late[c][:1] == "\u0334" != chr(c) or early[c] == chr(c) + "\u0301")} | {0x334},
        nfd,
        nfkd,
        {c for c in nfd if nfc[c] == chr(c)},
        matched(r"\p{Han}+"),
        matched(r"\p{Alphabetic}+"),
        matched(r"\w+"),
        matched(r"[[:punct:]]+"),
    )
    lower = [(c, s) for c, s in sorted(low.items()) if s != chr(c) and len(s) == 1]
    print({hex(c): s for c, s in low.items() if len(s) != 1})
    with open(path, "wb") as f:
        for t in (category, flags, norm, scripts()):
            f.write(trie(t))
        f.write(struct.pack("<H", len(lower)))
        for c, s in lower:
            f.write(struct.pack("<II", c, ord(s)))


def numeric():
    """What Digits sets apart: a number stands alone behind an a."""
    out = set()
    for i in range(0, len(POINTS), 4096):
        part = "".join("a" + chr(c) for c in POINTS[i : i + 4096])
        for piece, _ in P.Digits(True).pre_tokenize_str(part):
            if len(piece) == 1 and piece != "a":
                out.add(ord(piece))
    return out


if __name__ == "__main__":
    main(sys.argv[1])
