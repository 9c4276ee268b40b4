"""Records what jinja2 makes of templates: record.py [OUTPUT SEED [COUNT]].

snippets.json.gz are small templates, models.json.gz those in
tokenizer/chattemplate/testdata/models. Without OUTPUT they replace the test data.
"""

import gzip
import json
import pathlib
import sys

from cases import cases
from environment import environment, render
from snippets import VARIABLES, all_snippets

MODELS = pathlib.Path(__file__).parents[2] / "tokenizer/chattemplate/testdata/models"


def write(path, data):
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", filename="", mtime=0) as g:
        g.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    root = MODELS.parents[2]
    snippets_to = out if len(sys.argv) > 2 else root / "jinja/testdata"
    models_to = out if len(sys.argv) > 2 else MODELS.parent
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    env = environment()
    snippets = []
    for source in all_snippets(seed, count):
        snippets.append({"source": source, **render(env, source, VARIABLES)})
    write(snippets_to / "snippets.json.gz", {"variables": VARIABLES, "snippets": snippets})
    models = {}
    for path in sorted(MODELS.glob("*.jinja")):
        source = path.read_text()
        models[path.stem] = [render(env, source, case["variables"]) for case in cases()]
    write(models_to / "models.json.gz", {"cases": cases(), "models": models})


if __name__ == "__main__":
    main()
