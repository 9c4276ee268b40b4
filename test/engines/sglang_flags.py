"""Prints the flags of SGLang as argparse's help does, without importing it.

    python sglang_flags.py WHEEL-OR-SITE-PACKAGES

SGLang's own --help imports kernels that need a GPU. Its flags are declared as fields
of classes (sglang/srt/arg_groups/fields), a few more in server_args.py.
"""

from __future__ import annotations

import ast
import pathlib
import sys
import zipfile

FIELDS = "sglang/srt/arg_groups/fields/"
MAIN = "sglang/srt/server_args.py"
PLAIN = {"store_true", "store_false", "DeprecatedStoreTrueAction", "store_const"}


def sources(root: str) -> list[str]:
    """Return the sources that declare flags."""
    if root.endswith(".whl"):
        with zipfile.ZipFile(root) as z:
            names = [n for n in z.namelist() if n == MAIN or (n.startswith(FIELDS) and n.endswith(".py"))]
            return [z.read(n).decode() for n in sorted(names)]
    top = pathlib.Path(root)
    return [p.read_text() for p in [*sorted((top / FIELDS).glob("*.py")), top / MAIN]]


def literal(node: ast.expr | None):
    """Return the value of a literal, None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in call.keywords if k.arg}


def values(names: list[str], nargs: str | None, flag: bool) -> str:
    """Return one line of help."""
    metavar = names[0].lstrip("-").replace("-", "_").upper()
    many = {"+": f" {metavar} [{metavar} ...]", "*": f" [{metavar} ...]", "?": f" [{metavar}]"}
    value = "" if flag else many.get(nargs or "", f" {metavar}")
    return "  " + ", ".join(n + value for n in names)


def from_field(field: ast.AnnAssign) -> str | None:
    """Return the line of a field declared as A[type, "help"] or A[type, Arg(...)]."""
    note = field.annotation
    if not (isinstance(note, ast.Subscript) and isinstance(note.value, ast.Name) and note.value.id in {"A", "Annotated"}):
        return None
    kind, *notes = note.slice.elts if isinstance(note.slice, ast.Tuple) else [note.slice]
    arg = next((n for n in notes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Arg"), None)
    if arg is None and not any(isinstance(n, (ast.Constant, ast.JoinedStr, ast.BinOp)) for n in notes):
        return None
    given = keywords(arg) if arg else {}
    if literal(given.get("no_cli")):
        return None
    name = literal(given.get("cli_name")) or "--" + field.target.id.replace("_", "-")
    names = [name, *(literal(given.get("aliases")) or [])]
    text = ast.unparse(kind).replace("Optional[", "").replace(" | None", "")
    nargs = literal(given.get("nargs"))
    if text.lower().startswith("list[") and "type_parser" not in given:
        nargs = nargs or "+"
    action = given.get("action")
    plain = text.rstrip("]") == "bool"
    if action is not None:
        plain = (literal(action) or ast.unparse(action)) in PLAIN
    return values(names, nargs, plain)


def from_call(call: ast.Call) -> str | None:
    """Return the line of a call of add_argument."""
    if getattr(call.func, "attr", "") != "add_argument":
        return None
    names = [n for n in map(literal, call.args) if isinstance(n, str) and n.startswith("-")]
    given = keywords(call)
    action = given.get("action")
    plain = action is not None and (literal(action) or ast.unparse(action)) in PLAIN
    return values(names, literal(given.get("nargs")), plain) if names else None


def main() -> None:
    lines = set()
    for text in sources(sys.argv[1]):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                lines.add(from_field(node))
            elif isinstance(node, ast.Call):
                lines.add(from_call(node))
    print("usage: python -m sglang.launch_server [options]\n\noptions:")
    print("\n".join(sorted(line for line in lines if line)))


main()
