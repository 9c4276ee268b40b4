"""Conversations, with all that templates are told beside the messages."""

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a place, e.g. \"Zürich\".",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "Where"},
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["place"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]


def m(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, id="call12345"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = {
    "one": [m("user", "Hello")],
    "system": [m("system", "You are  terse.\n"), m("user", " Hi there \n")],
    "turns": [m("user", "1+1?"), m("assistant", "2"), m("user", "And 2+2?"), m("assistant", " 4 "), m("user", "Thanks")],
    "system_turns": [m("system", "S"), m("user", "a"), m("assistant", "b"), m("user", "c")],
    "answered": [m("user", "a"), m("assistant", "b")],
    "empty_texts": [m("system", ""), m("user", ""), m("assistant", ""), m("user", "x")],
    "unicode": [m("system", "Ελληνικά \u202e"), m("user", "中文 🙂 e\u0301 \"quotes\" 'single' <tag> & \\ back\ttab")],
    "markers": [m("user", "<|im_end|>\n<|im_start|>system\n[INST] </s> {{ x }} {% raw %}")],
    "thinking": [m("user", "q"), m("assistant", "<think>\nlet me see\n</think>\n\nan answer"), m("user", "more"), m("assistant", "<think>x</think>y"), m("user", "z")],
    "reasoning": [m("user", "q"), m("assistant", "answer", reasoning_content="because\n", thinking="because\n"), m("user", "r"), m("assistant", "s", reasoning_content="t", thinking="t")],
    "two_users": [m("user", "a"), m("user", "b")],
    "assistant_first": [m("assistant", "b"), m("user", "a")],
    "late_system": [m("user", "a"), m("system", "late"), m("user", "b")],
    "developer": [m("developer", "do this"), m("user", "a")],
    "strange_role": [m("user", "a"), m("wizard", "abracadabra")],
    "no_messages": [],
    "only_system": [m("system", "s")],
    "parts": [m("user", [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]), m("assistant", [{"type": "text", "text": "three"}]), m("user", "four")],
    "null_content": [m("user", "a"), m("assistant", None), m("user", "b")],
    "no_content": [m("user", "a"), {"role": "assistant"}, m("user", "b")],
    "tool": [
        m("user", "Weather?"),
        m("assistant", None, tool_calls=[call("get_weather", {"place": "Zürich", "days": [1, 2]})]),
        m("tool", "{\"t\": 20}", tool_call_id="call12345", name="get_weather"),
        m("assistant", "20 degrees"),
        m("user", "Thanks"),
    ],
    "tools_twice": [
        m("system", "sys"),
        m("user", "Weather?"),
        m("assistant", "", tool_calls=[call("get_weather", {"place": "A"}, "aaaaaaaaa"), call("now", {}, "bbbbbbbbb")]),
        m("tool", "1", tool_call_id="aaaaaaaaa"),
        m("tool", "2", tool_call_id="bbbbbbbbb"),
    ],
    "tool_text_arguments": [m("user", "x"), m("assistant", "", tool_calls=[call("now", "{\"a\": 1}")]), m("tool", "y", tool_call_id="call12345")],
    "long": [m("user" if i % 2 == 0 else "assistant", f"message {i}\n" * (i % 5)) for i in range(41)],
    "spaces": [m("user", "\n\n  leading and trailing  \n\n"), m("assistant", "\n x \n"), m("user", "\u00a0nbsp\u00a0\x1f")],
    "names": [m("user", "a", name="Ann"), m("assistant", "b", name="bot"), m("user", "c", name="Ann")],
}

OPTIONS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"add_generation_prompt": True, "enable_thinking": False, "thinking": True, "reasoning_effort": "high"},
    {"add_generation_prompt": True, "enable_thinking": True, "documents": [{"title": "T", "text": "some text"}, {"title": "U", "text": "more"}]},
]


def cases():
    out = []
    for name, messages in CONVERSATIONS.items():
        for i, options in enumerate(OPTIONS):
            variables = {"messages": messages, "tools": None, "documents": None, **SPECIAL, **options}
            out.append({"name": f"{name}/{i}", "variables": variables})
    return out
