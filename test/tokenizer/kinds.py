"""Tokenizers of every kind that models have, trained on a small corpus."""

import json
import os
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as X

import corpus

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
TEKKEN = O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
KIMI = r"[\p{Han}]+|" + O200K.replace(r"\p{Lo}\p{M}]", r"\p{Lo}\p{M}&&[^\p{Han}]]")
DEEPSEEK = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
POEM = r"(?<=\p{L})\p{N}+|(?<!\S)\w+\b|\p{Lu}\p{Ll}*?(?=\p{Lu}|\b)|(?>\s+)x|[[:punct:]&&[^,.]]{2,3}?|(?m:.)"


def train(tok, trainer):
    tok.train_from_iterator(corpus.training(), trainer)
    return tok


def bytes_bpe(size=900, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"), pre=None, norm=None, **model):
    tok = Tokenizer(models.BPE(**model))
    if norm:
        tok.normalizer = norm
    tok.pre_tokenizer = pre or P.ByteLevel(add_prefix_space=False)
    tok.decoder = D.ByteLevel()
    train(tok, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=list(special), initial_alphabet=P.ByteLevel.alphabet()))
    return tok


def regexes(*patterns):
    return P.Sequence([P.Split(Regex(p), "isolated") for p in patterns] + [P.ByteLevel(add_prefix_space=False, use_regex=False)])


BYTES = ["<0x%02X>" % i for i in range(256)]


def fallback_bpe(norm=None, pre=None, size=900, fuse=True):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=True))
    if norm:
        tok.normalizer = norm
    if pre:
        tok.pre_tokenizer = pre
    train(tok, trainers.BpeTrainer(vocab_size=size, limit_alphabet=150, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + BYTES))
    # Bytes are no special tokens.
    data = json.loads(tok.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(data))


def unigram(norm, pre, size=700, special=("<unk>", "<s>", "</s>", "<pad>", "[MASK]"), byte_fallback=False):
    tok = Tokenizer(models.Unigram())
    if norm:
        tok.normalizer = norm
    if pre:
        tok.pre_tokenizer = pre
    train(tok, trainers.UnigramTrainer(vocab_size=1200, show_progress=False, special_tokens=list(special), unk_token="<unk>", max_piece_length=12))
    # Not every character of the texts is to be known.
    data = json.loads(tok.to_str())
    data["model"]["vocab"] = data["model"]["vocab"][:size]
    tok = Tokenizer.from_str(json.dumps(data))
    if byte_fallback:
        vocab = [v for v in data["model"]["vocab"] if len(v[0].encode()) < 3 or v[0] in special][:400]
        data["model"]["vocab"] = vocab + [[b, -20.0] for b in BYTES]
        data["model"]["byte_fallback"] = True
        tok = Tokenizer.from_str(json.dumps(data))
    return tok


def charsmap():
    """SentencePiece's own table, nmt_nfkc."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "m")
        text = iter([s for s in corpus.training() if "\x00" not in s])
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=text, model_prefix=path, model_type="char", vocab_size=5000, hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, normalization_rule_name="nmt_nfkc")
        with open(path + ".model", "rb") as f:
            return field(field(f.read(), 3), 2)  # ModelProto.normalizer_spec.precompiled_charsmap


def field(message, number):
    """The last field of that number, of bytes, in a protobuf message."""
    found, i = b"", 0

    def varint():
        nonlocal i
        value = shift = 0
        while True:
            value |= (message[i] & 0x7F) << shift
            shift += 7
            i += 1
            if message[i - 1] < 0x80:
                return value

    while i < len(message):
        key = varint()
        if key & 7 == 0:
            varint()
            continue
        n = {1: 8, 5: 4}.get(key & 7) or varint()
        if key >> 3 == number:
            found = message[i : i + n]
        i += n
    return found


def template(tok, single="<s> $A </s>", extra=()):
    names = {t for t in single.split() + list(extra) if t[0] != "$"}
    return X.TemplateProcessing(single=single, pair=None, special_tokens=[(n, tok.token_to_id(n)) for n in sorted(names)])


def kinds():
    out = {}
    spm = N.Precompiled(charsmap())

    t = out["gpt2"] = bytes_bpe()
    t.post_processor = X.ByteLevel(trim_offsets=False)

    t = out["roberta"] = bytes_bpe(special=("<s>", "</s>", "<unk>"), pre=P.ByteLevel(add_prefix_space=True))
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    t.post_processor = X.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True)

    t = out["llama3"] = bytes_bpe(pre=regexes(LLAMA3), ignore_merges=True)
    t.add_special_tokens(["<|begin_of_text|>"])
    t.post_processor = X.Sequence([X.ByteLevel(trim_offsets=False), template(t, "<|begin_of_text|> $A")])

    out["qwen2"] = bytes_bpe(pre=regexes(QWEN2), norm=N.NFC())
    out["cl100k"] = bytes_bpe(pre=regexes(CL100K))
    out["o200k"] = bytes_bpe(pre=regexes(O200K))
    out["tekken"] = bytes_bpe(pre=regexes(TEKKEN))
    out["kimi"] = bytes_bpe(pre=regexes(KIMI))
    out["deepseek3"] = bytes_bpe(pre=regexes(*DEEPSEEK))
    out["deepseek_coder"] = bytes_bpe(pre=regexes(*DEEPSEEK_CODER))
    out["poem"] = bytes_bpe(pre=regexes(POEM))
    out["bloom"] = bytes_bpe(pre=P.Sequence([P.Split(Regex(BLOOM), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]))
    out["falcon"] = bytes_bpe(pre=P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))
    out["starcoder"] = bytes_bpe(pre=P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False, use_regex=True)]))
    t = out["neox"] = bytes_bpe(norm=N.NFC())
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 9)])
    t = out["bytes_normalizer"] = bytes_bpe(norm=N.Sequence([N.NFKC(), N.ByteLevel()]), pre=P.Split("Ġ", "merged_with_next"))

    t = out["llama2"] = fallback_bpe(norm=N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]))
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    t.post_processor = template(t, "<s> $A")

    t = out["mistral"] = fallback_bpe(pre=P.Metaspace(prepend_scheme="first", split=False))
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 1)])
    t = out["gemma"] = fallback_bpe(norm=N.Replace(" ", "▁"), pre=P.Split(" ", "merged_with_previous"))
    t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])
    t = out["partial_fallback"] = fallback_bpe(pre=P.Metaspace(), fuse=False)
    data = json.loads(t.to_str())
    for i in range(0xE4, 0xF5):
        del data["model"]["vocab"]["<0x%02X>" % i]
    data["model"]["vocab"] = {k: i for i, k in enumerate(data["model"]["vocab"])}
    t = out["partial_fallback"] = Tokenizer.from_str(json.dumps(data))
    t.decoder = D.Sequence([D.ByteFallback(), D.Metaspace()])

    t = out["t5"] = unigram(spm, P.Metaspace())
    t.decoder = D.Metaspace()
    t.post_processor = template(t, "$A </s>")
    t = out["xlmr"] = unigram(N.Sequence([spm, N.Replace(Regex(" {2,}"), " "), N.Strip(False, True)]), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]))
    t.decoder = D.Metaspace()
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True), AddedToken("<extra_id_0>", rstrip=True)])
    t.post_processor = template(t)
    t = out["albert"] = unigram(N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), spm]), P.Metaspace(prepend_scheme="always"))
    t.decoder = D.Metaspace()
    t = out["unigram_fallback"] = unigram(N.NFKC(), None, byte_fallback=True)
    t.decoder = D.Sequence([D.ByteFallback(), D.Fuse()])
    t = out["marian"] = unigram(N.Nmt(), P.Metaspace(prepend_scheme="never"), size=500)
    t.decoder = D.Metaspace(prepend_scheme="never")
    t = out["whole_unigram"] = unigram(N.Sequence([N.Strip(True, True), N.NFD()]), P.Metaspace(prepend_scheme="first", split=False), size=300)
    t.decoder = D.Metaspace(prepend_scheme="first")

    t = out["bert"] = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()
    train(t, trainers.WordPieceTrainer(vocab_size=700, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = X.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    t = out["bert_cased"] = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(True, False, True, False), P.Whitespace(), D.WordPiece("##", False)
    train(t, trainers.WordPieceTrainer(vocab_size=900, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"]))
    t.post_processor = template(t, "[CLS] $A [SEP]")

    level = trainers.WordLevelTrainer(vocab_size=900, show_progress=False, special_tokens=["<unk>", "<pad>", "|"])
    for name, norm, pre, dec in [
        ("words", None, P.Whitespace(), None),
        ("words_scripts", N.NFC(), P.Sequence([P.UnicodeScripts(), P.Digits(True), P.WhitespaceSplit()]), None),
        ("words_punctuation", N.NFD(), P.Sequence([P.CharDelimiterSplit(" "), P.Punctuation("merged_with_previous"), P.Digits(False)]), None),
        ("words_next", N.StripAccents(), P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_next")]), None),
        ("words_removed", N.Lowercase(), P.Sequence([P.Punctuation("removed"), P.Split(Regex(r"\s+"), "removed"), P.Split("-", "contiguous")]), None),
        ("words_invert", None, P.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True), None),
        ("words_fixed", N.NFKD(), P.FixedLength(3), None),
        ("words_ctc", N.Replace(Regex(r"[^a-zA-Z' ]"), ""), P.FixedLength(1), D.CTC("<pad>", "|", True)),
    ]:
        t = out[name] = Tokenizer(models.WordLevel(unk_token="<unk>"))
        if norm:
            t.normalizer = norm
        t.pre_tokenizer = pre
        train(t, level)
        if dec:
            t.decoder = dec

    t = out["clip"] = Tokenizer(models.BPE(unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([P.Split(Regex(CLIP), "removed", invert=True), P.ByteLevel(add_prefix_space=False)])
    t.decoder = D.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=900, show_progress=False, end_of_word_suffix="</w>", special_tokens=["<|startoftext|>", "<|endoftext|>"], initial_alphabet=P.ByteLevel.alphabet()))
    t.post_processor = X.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), False, False)
    t = out["gpt1"] = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.BPEDecoder()
    train(t, trainers.BpeTrainer(vocab_size=700, show_progress=False, end_of_word_suffix="</w>", special_tokens=["<unk>"]))
    t = out["bpe_prefix"] = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    t.pre_tokenizer, t.decoder = P.WhitespaceSplit(), D.WordPiece()
    train(t, trainers.BpeTrainer(vocab_size=600, limit_alphabet=80, show_progress=False, continuing_subword_prefix="##", special_tokens=["<unk>"]))
    t = out["bpe_silent"] = Tokenizer(models.BPE())  # unknown characters vanish
    t.pre_tokenizer = P.Whitespace()
    train(t, trainers.BpeTrainer(vocab_size=300, limit_alphabet=60, show_progress=False))

    t = out["added"] = bytes_bpe(norm=N.Lowercase())
    t.add_tokens(
        [
            AddedToken("DAY", single_word=True, normalized=True),
            AddedToken("Mon", normalized=False),
            AddedToken("<extra_id_0>", lstrip=True, rstrip=True),
            AddedToken("[MASK]", lstrip=True, normalized=False),
            AddedToken("</s>", rstrip=True, special=True, normalized=False),
            AddedToken("<s>", special=True, normalized=True),
            AddedToken("<s><s>", normalized=False),
            AddedToken("user", single_word=True),
            AddedToken("中", normalized=False, single_word=True),
        ]
    )
    return out
