"""Small templates that show what the language means, by hand and by chance."""

import random

VARIABLES = {
    "s": "Hello, World",
    "t": "  two  words\n",
    "u": "ß Ünïcode 中文 🙂 e\u0301",
    "e": "",
    "n": 7,
    "z": 0,
    "m": -3,
    "big": 123456789012345678901234567890,
    "f": 2.5,
    "g": 1e100,
    "yes": True,
    "no": False,
    "nil": None,
    "l": [1, "two", 3.0, None, True, [4, 5]],
    "nums": [3, 1, 2, 10, -1],
    "words": ["banana", "Apple", "cherry", "apple"],
    "d": {"b": 1, "a": "x", "nested": {"k": [1, 2]}, "items": "shadow", "content": None},
    "msgs": [
        {"role": "system", "content": "Be <brief> & 'kind'"},
        {"role": "user", "content": "Hi\n there "},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [True, None, 1.5]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "42"}]},
    ],
}

HAND = r"""
{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ s[::2] }}{{ s[-3:] }}{{ s[:-7] }}{{ s[100:] }}
{{ u[0] }}|{{ u[2:5] }}|{{ u[::-1] }}|{{ u|length }}|{{ u|upper }}|{{ u|lower }}|{{ u|title }}|{{ u.title() }}|{{ u|reverse }}
{{ l }} {{ d }} {{ msgs }}
{{ l[0] }} {{ l[-1][0] }} {{ l[99] }} {{ l[1:3] }} {{ l[::-2] }}
{{ nums|sort }} {{ nums|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ words|unique|list }}
{{ d.a }} {{ d['a'] }} {{ d.items }} {{ d['items'] }} {{ d.missing }} {{ d.nested.k[1] }} {{ d.get('zz') }} {{ d.get('zz', 5) }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}{% endfor %}
{{ d.missing.more }}
{{ missing.more }}
{{ missing }}|{{ missing is defined }}|{{ missing is undefined }}|{{ missing is none }}|{{ missing == missing }}|{{ missing|length }}|{{ missing|default('x') }}
{{ nil is none }} {{ nil }} {{ nil == None }} {{ nil|default('x') }} {{ nil|default('x', true) }}
{{ yes }} {{ not yes }} {{ yes and 5 }} {{ no or 'or' }} {{ yes is true }} {{ yes is sameas true }} {{ yes == 1 }} {{ yes + 1 }}
{{ n / 2 }} {{ n // 2 }} {{ n % 3 }} {{ m // 2 }} {{ m % 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ n * 'ab' }} {{ [0] * 3 }} {{ 'a' 'b' }} {{ 'a' ~ 1 ~ none ~ 2.0 }} {{ s + '!' }}
{{ 1 + '1' }}
{{ '1' + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 'a' in s }} {{ 'W' in s }} {{ 3 in nums }} {{ 'a' in d }} {{ 'a' not in d }}
{{ 1 < 'a' }}
{{ 1e100 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 100.0 }} {{ -0.0 }} {{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 1.5e3 }}
{{ big }} {{ g }} {{ f }} {{ f|int }} {{ '12'|int }} {{ 'x'|int }} {{ 'x'|int(3) }} {{ '3.7'|int }} {{ '2.5'|float }} {{ 'x'|float }} {{ '0x1f'|int(0, 16) }}
{{ f|round }} {{ 3.14159|round(2) }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 5|round }}
{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ t|trim }}|{{ s.strip('Hd') }}|{{ t.split() }}|{{ t.split(' ') }}|{{ s.split(', ') }}|{{ s.rsplit('o', 1) }}|{{ s.split('o', 1) }}
{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb\r\nc'.splitlines(true) }} {{ ''.splitlines() }}
{{ s.startswith('Hell') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('q') }} {{ s.count('l') }} {{ s.index('W') }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s|replace('o', '0', 1) }} {{ s.upper() }} {{ s.lower() }} {{ s.capitalize() }} {{ s.title() }} {{ "they're bill's".title() }} {{ "they're bill's (x-ray)"|title }} {{ s.swapcase() }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ 'a1'.isalnum() }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'x'.center(6, '*') }} {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '.') }} {{ 'xx'|center(5) }}|
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ '-'.join(['a', 'b']) }}
{{ '%s is %d and %.2f' % ('x', 3, 2.5) }} {{ '%5s|%-5s|%05d' % ('a', 'b', 42) }} {{ '%s' % 'x' }} {{ '%d%%' % 5 }} {{ '%s %s'|format('a', 1) }} {{ '{} {1} {0}'.format(1, 2) }}
{{ '{} {}'.format(1, s) }} {{ '{a}{b}'.format(a=1, b=2) }} {{ '{{x}}'.format() }}
{{ l|tojson }} {{ d|tojson }} {{ u|tojson }} {{ msgs|tojson(indent=2) }} {{ {'a': [], 'b': {}}|tojson(indent=4) }}
{{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ l|tojson(separators=(',', ':')) }} {{ "\x7f\x01\"\\/"|tojson }} {{ g|tojson }} {{ big|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, true: 3, none: 4}|tojson }}
{{ missing|tojson }}
{{ msgs|map(attribute='role')|list }} {{ msgs|map(attribute='role')|join(', ') }} {{ words|map('upper')|list }} {{ nums|map('string')|join }} {{ msgs|map(attribute='nope', default='-')|list }}
{{ msgs|selectattr('role', 'equalto', 'user')|list }} {{ msgs|rejectattr('role', '==', 'user')|list|length }} {{ msgs|selectattr('tool_calls')|list|length }} {{ msgs|selectattr('tool_calls', 'defined')|first }}
{{ nums|select('odd')|list }} {{ nums|reject('gt', 2)|list }} {{ l|select|list }} {{ l|select('string')|list }} {{ nums|select('in', [1, 2])|list }}
{% if msgs|selectattr('role', 'equalto', 'nobody') %}a generator is true{% endif %}
{{ nums|max }} {{ nums|min }} {{ nums|sum }} {{ words|max }} {{ []|max }} {{ msgs|sum(attribute='zz', start=0) }}
{{ nums|batch(2)|list }} {{ nums|batch(2, 'x')|list }} {{ nums|slice(2)|list }} {{ nums|slice(3, '-')|list }}
{{ msgs|groupby('role')|length }} {% for r, ms in msgs|groupby('role') %}{{ r }}:{{ ms|length }} {% endfor %}
{{ nums|first }} {{ nums|last }} {{ []|first }} {{ s|first }} {{ s|last }} {{ d|first }} {{ nums|reverse|list }} {{ nums|length }} {{ d|length }} {{ s|list }}
{{ range(5)|list }} {{ range(2, 10, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(10)[2:5] }} {{ range(0)|list }}
{% for i in range(3) %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% endfor %}
{% for x in nums if x > 1 %}{{ loop.index0 }}:{{ x }}:{{ loop.revindex }}:{{ loop.revindex0 }} {% else %}none{% endfor %}
{% for x in [] %}x{% else %}empty{% endfor %}
{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in nums %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}
{% for x in nums %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 10 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for a in [[1, [2]], [3, []]] recursive %}{{ a }}{{ loop.depth }}{% if a is iterable and a is not string and loop.depth < 3 %}({{ loop(a) }}){% endif %}{% endfor %}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=1, found=false) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% set ns.found = true %}{% endfor %}{{ ns.x }}{{ ns.found }}{{ ns.missing }}
{% set ns = namespace() %}{% set ns.l = [] %}{% for i in nums %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}
{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = (b, a) %}{{ a }}{{ b }}
{% set a, b = [1, 2, 3] %}
{% set block %}some {{ n }} text{% endset %}[{{ block }}]{% set up | upper %}abc{% endset %}{{ up }}
{% if x %}{% set x = 2 %}{% else %}{% set x = 3 %}{% endif %}{{ x }}
{% macro m(a, b=2, c='z') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=5, a=4) }}{{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}{% call wrap('b') %}inside {{ n }}{% endcall %}
{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) each(words) %}{{ i }}={{ x }} {% endcall %}
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1)|int) }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro outer() %}{{ late }}{% endmacro %}{% set late = 'x' %}{{ outer() }}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b')|trim %} aaa {% endfilter %}
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% raw %}{{ not }} {% this %}{% endraw %} {%- raw -%}  x  {%- endraw -%}  y
{# comment #}a{#- strip -#} b {# x
y #}
c
{{ 'a' if yes }}{{ 'a' if no }}{{ 'a' if no else 'b' if no else 'c' }}
{{ [1, 2,] }} {{ (1,) }} {{ () }} {{ {'a': 1, 'b': [2]} }} {{ 1, 2 }} {{ {}['x'] }} {{ [][0] }}
{{ "a" "b" }} {{ 'it''s' }} {{ "tab\tnl\\n \u00e9 \x41 \101 \q" }} {{ 'a"b' }}{{ ["a'b", 'c"d', "e'f\"g", "\n\t\x00é🙂\x7f"] }}
{{ s is string }} {{ n is number }} {{ yes is number }} {{ yes is integer }} {{ f is float }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ l is iterable }} {{ n is iterable }} {{ missing is iterable }} {{ missing is sequence }} {{ s is mapping }} {{ nil is none }} {{ yes is boolean }}
{{ 4 is even }} {{ 4 is odd }} {{ 9 is divisibleby 3 }} {{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ n is eq 7 }} {{ n is not eq 7 }} {{ n is ne 7 }} {{ n is gt 3 }} {{ n is lt 3 }} {{ n is ge(7) }} {{ 'a' is lower }} {{ 'A' is upper }} {{ m is callable }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }}
{{ words|join('|') }} {{ [1, none, true]|join(',') }} {{ s|join('.') }} {{ msgs|join(',', attribute='role') }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('>>') }}
{{ 'one two three four'|truncate(9) }} {{ 'one two three four'|truncate(9, true) }} {{ 'one two'|truncate(50) }} {{ 'one two three four'|truncate(12, false, '…', 0) }} {{ 'a b-c d'|wordcount }}
{{ '<a & "b">'|e }} {{ '<a>'|safe }} {{ 'a b/c?é'|urlencode }} {{ -5|abs }} {{ (-5)|abs }} {{ -f|abs }} {{ 5.5|string + 'x' }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ not 1 == 2 }} {{ 10 - 3 - 2 }} {{ 1 ~ 2 + 3 }} {{ 'a' ~ 'b' * 2 }} {{ -n }} {{ +n }} {{ --n }} {{ not not n }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %d, %Y') }} {{ strftime_now('%A %a %j %y %I %p %-d %e %%') }}
{{ raise_exception('bad: ' ~ n) }}
{{ namespace(a=1).a }} {{ dict(a=1, b=2) }} {{ dict([['x', 1]]) }} {{ dict({'a': 1}, b=2) }}
{{ msgs.append(1) }}
{{ msgs[0].update({'a': 1}) }}
{{ msgs.__class__ }}{{ s.__class__ is defined }}
{{ ''.__class__.__mro__ }}
{{ d.nested.copy() }} {{ nums.index(2) }} {{ nums.count(1) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.keys() }} {{ d.nested.items() }}
{{ s.nope }} {{ s.nope is defined }} {{ l.nope }} {{ l['nope'] }} {{ l[none] }} {{ s[none] }} {{ d[none] }}
{{ s.nope() }}
{{ s() }}
{{ n.x.y }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ s|nofilter }}
{{ s is notest }}
{{ nums[missing] }}
{{ missing + 1 }}
{{ missing < 1 }}
{{ missing ~ 'x' }} {{ missing|upper }} {{ missing|list }} {{ missing|join }} {{ missing in [1] }} {{ 1 in missing }} {% for x in missing %}x{% endfor %} {{ missing|trim|length }}
{{ none in s }}
{{ 5|length }}
{{ nil|length }}
{{ nil|trim }} {{ 5|trim }} {{ l|trim }} {{ nil|upper }} {{ n|string|length }}
{{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ [1, 2][1] }} {{ 'abc'[1] }} {{ (1, 2)[0] }} {{ msgs[2].tool_calls[0].function.arguments|tojson }} {{ msgs[2]['tool_calls'][0]['function']['name'] }}
{{ msgs[-1].content[0].text }} {{ msgs|last|tojson }} {{ msgs[1:]|length }} {{ msgs[::2]|map(attribute='role')|list }} {{ msgs[:-1][-1].role }}
{{ loop is defined }} {% for x in [1] %}{{ loop is defined }}{% endfor %}
{% generation %}a {{ n }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}
{% print n, s %}
{% set x %}{% for i in range(2) %}{{ i }}{% endfor %}{% endset %}{{ x|length }}{{ x }}
{% for m in msgs %}{% if loop.first %}F{% elif m.role == 'user' %}U{% else %}O{% endif %}{% endfor %}
{% for m in msgs -%}   {{ m.role }}   {%- endfor %}
   {% if yes %}   a   {% endif %}   b
   {%+ if yes %}   a   {% endif +%}   b
x {% if yes %} y {% endif %} z
{% if yes -%} y {%- endif %}
	 {% set q = 1 %}	 {{ q }}
{{ "a" -}}   b   {{- "c" }}
{%- if yes %} a {%- else %} b {%- endif -%}
{{ [[1, 2], [3, 4]]|map('first')|list }} {{ [[3, 'c'], [1, 'a']]|sort(attribute='0') }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }}
{{ joiner('|')() }}{% set j = joiner(', ') %}{{ j() }}a{{ j() }}b {% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}
{{ s if s else t }} {{ (s, t)[0] }} {{ 'x' * 3 if yes else '' }} {{ words[1:][0] }} {{ words[-1:][0][0] }} {{ {'k': words}.k[0]|upper }}
{{ yes is not none and yes is defined }} {{ (yes is defined) and (d.a is not none) }} {{ yes is defined and yes }} {{ 'a' is string and 'b' }}
{{ 'ab' is not sameas 'cd' }} {{ [1] == [1] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ '1' == 1 }} {{ none == false }} {{ [1, 2] < [1, 3] }} {{ (1, 2) > (1,) }}
{{ 'x'.join(['a', 1]) }}
{{ d.nested | tojson | length }} {{ (d.nested | tojson)[0] }} {{ n | float }} {{ '%.1f' | format(n) }} {{ '5' | int + 1 }} {{ 'a,b'.split(',') | first }} {{ 'a'.upper() | lower }}
{{ {'a': 1, **d} }}
{{ [*l] }}
{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x }} {% set x = [1] %}{% set x = x + [2] %}{{ x }}
{% endif %}
{% if %}
{% for %}
{{ }}
{{ a b }}
{{ 'a }}
{{ (1 }}
{% unknown %}
{% if yes %}
{% else %}
{{ 1 | }}
{# open
{% macro x( %}{% endmacro %}
{{ x. }}
{% set = 1 %}
{% for x nums %}{% endfor %}
{{ 08 }}
{{ s[1:2:0] }}
{{ nums|sort(attribute='x') }}
{{ l|sort }}
{{ range(1000000000) }}
{{ 5 is string is defined }}
{{ 'İ'|lower|length }} {{ 'ǆ'.title() }} {{ 'ŉ'.upper() }} {{ 'ß'.upper() }} {{ 'ΑΣ'.lower() }} {{ 'ﬁ'.upper() }}
{{ "a b c".strip().split()[-1] }} {{ " a\u00a0b\u2003".split() }} {{ "\x1fa\x1c".strip() }}
"""

# Tags over several lines, by hand: split by lines of ===.
BLOCKS = r"""
{% for m in msgs %}
    {% if m.role == 'user' %}
        {{ m.content }}
    {% endif %}
{% endfor %}

end
===
line
  {{ s }}
  {%- if yes %}

  x
  {%- endif %}

  y
===
{%- for m in msgs -%}
  {{ '<' + m['role'] + '>' }}

  {% if not loop.last -%}
  , 
  {%- endif %}
{%- endfor -%}
  tail  

===
a
{#- comment -#}
b
{# line #}
c {# in line #}
d
===
  {# lead #}
  {% set x = 1 %}
  {{ x }}
    {%+ set y = 2 %}
  {{ y }}
===
{% macro m(x) -%}
  [{{ x }}]
{%- endmacro %}
{{ m(1) }}
{% call m(2) %}
{% endcall %}
===
{{ 1 }}
{{ 2 }}


===
{% raw %}
  {{ x }}
{% endraw %}
after
===
{% if yes %}
{% endif %}
{{ s
  ~ t
}}{{
 n }}
{%
 set
 q = [
  1,
  2
 ]
%}
{{ q }}
===
{%- macro render(args, nested=false) %}
    {%- for k, v in args.items() %}
        {%- if v is mapping %}
{{ k }}: { {{- render(v, true) -}} }
        {%- else %}
            {{- ', ' if not loop.first }}{{ k }}={{ v|tojson }}
        {%- endif %}
    {%- endfor %}
{%- endmacro %}
{{ render(msgs[2].tool_calls[0].function.arguments) }}{{ render({'a': {'b': {'c': 1}}, 'd': 2}) }}
===
{% for m in nums %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}
===
{% macro show() %}{{ s }}{% endmacro %}{{ show() }}{% set s = 1 %}{{ show() }}
===
{{ s }}{% for m in nums %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}
===
{% for m in nums %}{{ s }}{% endfor %}{% if n %}{% set s = 1 %}{% endif %}{{ s }}
===
{% for m in nums %}{{ s }}{% endfor %}{% if n %}{% set s = 1 %}{% elif z %}{% set s = 3 %}{% else %}{% set s = 2 %}{% endif %}{{ s }}
===
{% for m in nums %}{{ s }}{% endfor %}{% if n %}{% set s = 1 %}{% else %}{% set s = 2 %}{% endif %}{{ s }}
===
{% if s %}{% for m in nums %}{{ s }}{% endfor %}{% endif %}{% set s = s ~ 1 %}{{ s }}
===
{% for m in nums %}{{ s }}{% endfor %}{% set s %}x{% endset %}{{ s }}
===
{% for m in nums %}{% for k in nums %}{{ s }}{% endfor %}{% set s = m %}{{ s }}{% endfor %}{{ s }}
===
{% for m in nums %}{% if m > 2 %}{% set s = m %}{% endif %}{{ s }}{% endfor %}{{ s }}
===
{% macro show(m) %}{% for k in nums %}{{ s }}{% endfor %}{% set s = m %}{{ s }}{% endmacro %}{{ show(1) }}{{ s }}
===
{%- set ns = namespace(last=-1, tool=false) -%}
{%- for m in msgs[::-1] %}
    {%- set index = (msgs|length - 1) - loop.index0 %}
    {%- if ns.last < 0 and m.role == "user" and m.content is string and not(m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{{ ns.last }}
"""


def by_chance(seed, count):
    r = random.Random(seed)
    names = [k for k in VARIABLES if k not in ("big", "g")]

    def literal():
        return r.choice(["0", "1", "-1", "2", "3", "2.5", "'a'", "'ab c'", "''", "'l'", "true", "none", "[]", "[1, 'x']", "{'a': 1}", "missing", "(1, 2)", "'o'"])

    def expr(depth):
        if depth <= 0:
            return r.choice(names) if r.random() < 0.7 else literal()
        x = lambda: expr(depth - 1)
        kind = r.randrange(16)
        if kind < 3:
            return f"({x()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or'])} {x()})"
        if kind == 3:
            return f"(not {x()})"
        if kind < 7:
            f = r.choice(["trim", "upper", "lower", "title", "capitalize", "length", "list", "first", "last", "string", "int", "float", "abs", "round",
                          "tojson", "join", "join('-')", "sort", "reverse|list", "unique|list", "sum", "max", "min", "default('q')", "default('q', true)",
                          "map('string')|list", "select|list", "map(attribute='role')|list", "selectattr('role')|list", "replace('l', 'q')", "indent(2)",
                          "batch(2)|list", "items|list", "dictsort", "tojson(indent=2)", "center(9)", "wordcount", "truncate(8)", "reject('none')|list",
                          "select('string')|list", "groupby('role')|list|length"])
            return f"{x()}|{f}" if r.random() < 0.5 else f"({x()})|{f}"
        if kind < 9:
            t = r.choice(["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "boolean", "true", "odd",
                          "even", "lower", "upper", "in nums", "eq 7", "sameas none", "divisibleby 2", "callable"])
            return f"({x()} is {'not ' if r.random() < 0.3 else ''}{t})"
        if kind < 11:
            m = r.choice(["strip()", "lstrip('H ')", "rstrip()", "split()", "split('l')", "rsplit('o', 1)", "splitlines()", "startswith('H')", "endswith('d')", "upper()",
                          "lower()", "title()", "capitalize()", "replace('o', '0')", "find('o')", "count('l')", "isdigit()", "isalpha()", "isspace()",
                          "islower()", "zfill(9)", "ljust(14, '.')", "partition('o')", "get('a')", "get('zz', 1)", "keys()|list", "values()|list", "items()|list",
                          "index(2)", "count(1)", "join(words)", "swapcase()", "removeprefix('He')", "isupper()", "isalnum()", "center(15, '-')"])
            return f"{x()}.{m}"
        if kind == 11:
            return f"{x()}[{r.choice(['0', '-1', '1', '9', repr('a'), repr('role'), 'n', 'yes', 'nil'])}]"
        if kind == 12:
            part = lambda: r.choice(["", "0", "1", "2", "-1", "-2", "5", "99"])
            step = r.choice(["", ":", ":1", ":2", ":-1", ":-2"])
            return f"{x()}[{part()}:{part()}{step}]"
        if kind == 13:
            return f"({x()} if {x()} else {x()})"
        if kind == 14:
            return r.choice([f"[{x()}, {x()}]", f"({x()}, {x()})", f"{{'k': {x()}, 'a': {x()}}}"])
        return f"{x()}.{r.choice(['a', 'b', 'nested', 'role', 'content', 'k', 'zz'])}"

    def text():
        return r.choice(["a", " ", "\n", "  ", "\n  ", "b\n", "\t", "\n\n", " x "])

    def sign():
        return r.choice(["", "", "", "-", "+"])

    def tag(inside, open="{%", close="%}"):
        return open + sign() + " " + inside + " " + (sign() if open == "{%" else r.choice(["", "", "-"])) + close

    def template(depth):
        out = text()
        for _ in range(r.randrange(1, 4)):
            kind = r.randrange(8)
            if kind < 3 or depth == 0:
                out += tag(r.choice(names + ["loop.index" if depth < 2 else "n"]), "{{", "}}")
            elif kind == 3:
                out += tag("if " + expr(1)) + template(depth - 1) + (tag("else") + template(depth - 1) if r.random() < 0.5 else "") + tag("endif")
            elif kind == 4:
                out += tag(f"for {r.choice(['n', 'x', 'm'])} in {r.choice(['nums', 'words', 'msgs', 'd', 's', 'l'])}") + template(depth - 1) + tag("endfor")
            elif kind == 5:
                out += tag(f"set {r.choice(['n', 'x', 's'])} = {expr(1)}")
            elif kind == 6:
                out += "{#" + sign() + " c " + sign() + "#}"
            else:
                out += tag("raw").replace("+", "") + text() + "{{ x }}" + text() + tag("endraw")
            out += text()
        return out

    for i in range(count):
        yield "{{ " + expr(r.randrange(1, 4)) + " }}" if i % 3 else template(r.randrange(0, 3))


def all_snippets(seed, count):
    yield from (line for line in HAND.strip("\n").split("\n"))
    yield from BLOCKS.strip("\n").split("\n===\n")
    yield from by_chance(seed, count)
