"""The texts that tokenizers are compared on."""

import random
import sys
import unicodedata

SENTENCES = """The quick brown fox jumps over the lazy dog. It's 12:30, isn't it? They'll've done; I'd say we're OK, I'M SURE YOU'LL SEE 'S 'T 'RE 'VE.
Die Übergrößenträger müßten 1.234,56 € für die Straße zahlen – „wirklich“? STRASSE, ẞ, ß.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au delà des îles.
El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué? ¡Sí! N.º 3.ª
Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖИК № 42.
Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ΣΊΣΥΦΟΣ ΟΔΟΣ, ς.
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق. ١٢٣٤٥
דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। १२३
আমি বাংলায় গান গাই। தமிழ் மொழி அழகானது. తెలుగు భాష. ಕನ್ನಡ ನುಡಿ. മലയാളം. ગુજરાતી. ਪੰਜਾਬੀ. ଓଡ଼ିଆ. සිංහල.
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓ ພາສາລາວ ភាសាខ្មែរ မြန်မာဘာသာ བོད་སྐད།
我能吞下玻璃而不伤身体。快速的棕色狐狸跳過了懶狗。２０２４年１２月３１日，“你好”！
いろはにほへと ちりぬるを。カタカナ　ﾊﾝｶｸ ガギグゲゴ ー々〆 東京都渋谷区1丁目2-3。
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. ㅋㅋㅋ 한국어
ქართული ენა. Հայերեն լեզու. አማርኛ ቋንቋ። ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ. ᐃᓄᒃᑎᑐᑦ. ߒߞߏ. ⵜⴰⵎⴰⵣⵉⵖⵜ. 𐌲𐌿𐍄𐌰𐍂𐌰𐌶𐌳𐌰. 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒮𝒸𝓇𝒾𝓅𝓉.
def f(x: int) -> str:\n\treturn f"{x!r:>10}"  # comment\r\n\r\n\r\n    if x==0x1F and not(y): pass\n\n\n
{"key": [1, 2.5e-10, null, true], "päth": "C:\\\\temp\\\\new"}   <a href="https://example.com/?q=1&b=%20">x</a>
SELECT * FROM t WHERE a_b = 'c''d' AND n >= 1000000 OR 123456789012345678901234567890;
👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷🇯🇵 ❤️ ☺︎ 🧑🏿‍🚀 1️⃣ ©️ ® ™ ℝ ½ ² ₃ Ⅷ ⑤ ㊗ ﬁ ﬀ ĳ Ǆ ŉ ſ İ ı K Å
a\u0301e\u0301\u0323 o\u0308\u0304 ḋ\u0323 d\u0307\u0323 \u1100\u1161\u11a8 \uac00\u11a8 Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u034e\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034da\u036b\u0357
zero\u200bwidth\u200cnon\u200djoin\u2060er\ufeff soft\u00adhyphen nbsp\u00a0thin\u2009em\u2003ideo\u3000line\u2028para\u2029next\u0085end\x0b\x0c\x1c\x1f\x7f\x00nul
``quoted'' -- text… “smart” ‘quotes’ don’t won’t l’été rock’n’roll ‑ – — ― • · ※ § ¶ † ‰ ′ ″ ※ ‼ ⁉
\u0344\u0340 \u0958 \u2adc \u0f73\u0f71 \u1e9b\u0323 \ufb1d \u2126 \ufa10 \U0002f800 \U0001d15e \u3391 \ufdfa \u32ff \U0001f110 \u0cca \u09dc
This is [MASK] text <s> with </s> special<|endoftext|>tokens <|im_start|>user\nHello<|im_end|>\n  [UNK]   Monday mondays the DAY daylight <extra_id_0> <pad>
do not do . and do n't ' s I 'm he 've you 're ' ' wait , what ! ok ?""".split("\n")


def scripts(rnd):
    """Words of letters from everywhere, and what lies between them."""
    assigned = [c for c in range(0x20, 0x323B0) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    blocks = {}
    for c in assigned:
        blocks.setdefault(c >> 7, []).append(c)
    keys = sorted(blocks)
    for i in range(0, len(keys), 12):
        yield " ".join("".join(map(chr, rnd.choices(blocks[k], k=5))) for k in keys[i : i + 12])
    newer = list(range(0x10D40, 0x10D66)) + list(range(0x16D40, 0x16D7A)) + list(range(0x1FA70, 0x1FAFF)) + list(range(0x11BC0, 0x11BE2))
    newer += [0xA7CB, 0xA7CC, 0xA7DA, 0xA7DC, 0x1C89, 0x1C8A, 0x88F, 0x20C1, 0x16EA0, 0x16EBB, 0x11DB0, 0x1E6C0, 0x1ACF, 0x323B0]
    yield " ".join(map(chr, newer))


def mixed(rnd, n):
    pools = [
        "abcdefghijklmnopqrstuvwxyz",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "0123456789",
        " \t\n\r ",
        "                ",
        "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
        "'s't're've'm'll'd'S'T'RE'\u017f",
        "\u0300\u0301\u0308\u0323\u0327\u0338\u0345\u0591\u05b0\u064b\u093c\u094d\u200d\ufe0f\u20dd",
        "éüßñçøåœæ",
        "中文漢字仮名かなカナ한글",
        "абвгдАБВГД",
        "👍🏽❤🇩🇪🏳🌈👨👩",
        "\u00a0\u2003\u3000\u2028\u0085\x0b\x0c\u200b\ufeff",
        "½²Ⅷ①٣४",
        "▁Ġ<0x41></s><s>",
    ]
    for _ in range(n):
        out = []
        for _ in range(rnd.randint(1, 25)):
            pool = rnd.choice(pools)
            out.append("".join(rnd.choices(pool, k=rnd.randint(1, 6))))
        yield "".join(out)


def anywhere(rnd, n):
    for _ in range(n):
        out = []
        for _ in range(rnd.randint(1, 30)):
            c = rnd.choice([rnd.randint(0, 0x7F), rnd.randint(0, 0x24F), rnd.randint(0, 0xFFFF), rnd.randint(0, 0x10FFFF)])
            if not 0xD800 <= c <= 0xDFFF:
                out.append(chr(c))
        yield "".join(out)


def bytes_(rnd, n):
    """Byte strings, most of them no UTF-8."""
    for i in range(n):
        if i % 2:
            yield bytes(rnd.choices([0x20, 0x61, 0xC3, 0xA9, 0xE4, 0xB8, 0xAD, 0xF0, 0x9F, 0x91, 0x8D, 0xED, 0xA0, 0xFF, 0xC0, 0xF4, 0x90], k=rnd.randint(1, 24)))
        else:
            yield rnd.randbytes(rnd.randint(1, 24))


RUNS = ["a" * 3000, " " * 2000, "\n" * 700, " \n" * 500, "ab" * 1500, "é" * 1000, "中" * 800, "👍" * 300, "1" * 999, "!" * 700, "e" + "\u0301" * 400, "x" + "\u0301\u0323" * 200, "\t" * 600 + "x", "a " * 600, "▁" * 200, "\u200d" * 300, "'s" * 300, "A" * 500 + "b" * 500, "\x00" * 50, "ﷺ" * 50]

SHORT = ["", " ", "  ", "\n", "a", " a", "a ", "  a  b  ", "\u00a0", "é", "e\u0301", "中", "👍", "\ufeff", "\x00", "▁", "▁▁a", "<s>", " <s> ", "<s><s>", "[MASK]", "x[MASK]y", " [MASK] [MASK]", "ǅ", "İ", "ſ", "'ſ", "ﬁ", "A\u030a", "\u1100\u1161", "<0x41>", "\r\n", "\r\n\r\n", "0", "007", "١٢٣"]


def texts(seed=8, scale=1):
    rnd = random.Random(seed)
    out = list(SHORT) + SENTENCES + list(scripts(rnd)) + list(mixed(rnd, 60 * scale)) + list(anywhere(rnd, 40 * scale))
    out += [s[rnd.randint(0, len(s) // 2) :] for s in SENTENCES]
    return out + RUNS, list(bytes_(rnd, 40 * scale))


def training():
    here = sys.modules[__name__]
    rnd = random.Random(1)
    prose = [here.__doc__] + [unicodedata.__doc__ or ""] + [s for s in SENTENCES if "\x00" not in s]
    words = " ".join(sorted({w for m in (random, unicodedata, sys) for w in (m.__doc__ or "").split()}))
    return prose * 3 + [words] + [" ".join(rnd.sample(s.split(" "), len(s.split(" ")))) for s in SENTENCES]
