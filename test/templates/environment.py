"""The environment in which transformers renders chat templates."""

import copy
import json
import warnings
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

warnings.simplefilter("ignore", SyntaxWarning)

NOW = datetime(2026, 7, 4, 9, 5, 7)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_show"), [], [], body).set_lineno(lineno)

    def _show(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def render(env, source, variables):
    """The text, or what failed."""
    try:
        text = env.from_string(source).render(**copy.deepcopy(variables))
        return {"failed": "it shows an address"} if " at 0x" in text else {"text": text}
    except Raised as e:
        return {"raised": str(e.message)}
    except Exception as e:
        return {"failed": type(e).__name__ + ": " + str(e)}
