"""Writes smg/_flags.py and smg/_fields.py from `smg flags --json` on standard input.

`make golden` runs it; the tests of the package check that both files are current.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent / "smg"

# The fields that callers may give by position, in an order that never changes, and their
# flags where those have other names. Fields that are not here stand behind them.
FROZEN = """
worker_urls host port pd_disaggregation prefill_urls=prefill decode_urls=decode policy prefill_policy decode_policy
worker_startup_timeout_secs worker_startup_check_interval load_monitor_interval cache_threshold balance_abs_threshold
balance_rel_threshold eviction_interval_secs=eviction-interval max_tree_size max_idle_secs assignment_mode max_payload_size
bucket_adjust_interval_secs dp_aware enable_igw api_key log_dir log_level log_json service_discovery selector
service_discovery_port service_discovery_namespace prefill_selector decode_selector bootstrap_port_annotation=
prometheus_port prometheus_host prometheus_duration_buckets request_id_headers request_timeout_secs
shutdown_grace_period_secs max_concurrent_requests queue_size queue_timeout_secs rate_limit_tokens_per_second
cors_allowed_origins retry_max_retries retry_initial_backoff_ms retry_max_backoff_ms retry_backoff_multiplier
retry_jitter_factor disable_retries health_failure_threshold health_success_threshold health_check_timeout_secs
health_check_interval_secs health_check_endpoint disable_health_check cb_failure_threshold cb_success_threshold
cb_timeout_duration_secs cb_window_duration_secs disable_circuit_breaker model_path tokenizer_path chat_template
served_model_name= tokenizer_cache_enable_l0 tokenizer_cache_l0_max_entries tokenizer_cache_enable_l1
tokenizer_cache_l1_max_memory reasoning_parser tool_call_parser mcp_config_path backend storage_hook_wasm_path
history_backend oracle_wallet_path oracle_tns_alias oracle_connect_descriptor=oracle-dsn oracle_username=oracle-user
oracle_password oracle_external_auth oracle_pool_min oracle_pool_max oracle_pool_timeout_secs postgres_db_url
postgres_pool_max=postgres-pool-max-size redis_url redis_pool_max=redis-pool-max-size redis_retention_days
client_cert_path client_key_path ca_cert_paths server_cert_path=tls-cert-path server_key_path=tls-key-path enable_trace
otlp_traces_endpoint control_plane_api_keys control_plane_audit_enabled jwt_issuer jwt_audience jwt_jwks_uri
jwt_role_mapping
"""

NOTE = '"""Made by `make golden` from the flags of the Go programs. Do not edit."""'


def order(flags: dict[str, dict], before: str) -> dict[str, str]:
    """Return the flag of each field, in order: the frozen ones, those of before, and new ones."""
    fields = {}
    for word in FROZEN.split():
        field, mapped, name = word.partition("=")
        fields[field] = name if mapped else field.replace("_", "-")
    old = [name.replace("_", "-") for name in re.findall(r"^    (\w+): ", before, re.MULTILINE)]
    for name in [*old, *flags]:
        if name in flags and name not in fields.values():
            fields[name.replace("-", "_")] = name
    return fields


def annotated(flag: dict[str, Any]) -> tuple[str, str]:
    """Return the type and the default of a field, as Python has them."""
    kind, of, default = flag["kind"], flag["type"], flag["default"]
    if kind == "bool":
        return "bool", "False"
    if kind == "url_and_port":
        return "list[tuple[str, int | None]]", "dataclasses.field(default_factory=list)"
    if kind != "scalar":
        values = f"lambda: [{', '.join(map(quoted, default.split()))}]" if default else "list"
        return f"list[{of}]", f"dataclasses.field(default_factory={values})"
    if default == "":
        return f"{of} | None", "None"
    return of, quoted(default) if of == "str" else repr({"int": int, "float": float}[of](default))


def quoted(text: str) -> str:
    """Return a Python string in the quotes that are usual here."""
    return json.dumps(text, ensure_ascii=False)


def words(values: list[str]) -> str:
    """Return a tuple of strings."""
    return f"({', '.join(map(quoted, values))}{',' if len(values) == 1 else ''})"


def flags_module(table: list[dict]) -> str:
    """Return what the launcher has to know of a line, and loads at every start."""
    refused = [f for f in table if f.get("launcher_refuses")]
    lines = [NOTE, "", "# Values that the launcher refuses, and those that it leaves.", "REFUSED = {"]
    lines += [f"    {quoted(f['name'])}: {words(f['launcher_refuses'])}," for f in refused]
    lines += ["}", "CHOICES = {"]
    for f in refused:
        lines += [f"    {quoted(f['name'])}: ("]
        lines += [f"        {quoted(c)}," for c in f["choices"] if c not in f["launcher_refuses"]]
        lines += ["    ),"]
    lines += ["}", "", "# Flags whose value may begin with a dash.", f"DASHED = {words([f['name'] for f in table if f.get('dashed')])}"]
    return "\n".join(lines) + "\n"


def fields_module(table: list[dict], before: str) -> str:
    """Return the fields of RouterArgs and the flag behind each."""
    flags = {f["name"]: f for f in table if "launch" in f["commands"] or "serve:router" in f["commands"]}
    fields = order(flags, before)
    lines = [
        NOTE, "", "from __future__ import annotations", "", "import dataclasses", "from typing import Any", "",
        "from smg._flag import Flag", "", "",
        "@dataclasses.dataclass", "class Fields:", '    """The flags of the gateway with their defaults."""', "",
    ]  # fmt: skip
    for field, name in fields.items():
        of, default = annotated(flags[name]) if name in flags else ("Any", "None")
        lines.append(f"    {field}: {of} = {default}")
    lines += ["", "", "# The flag behind each field.", "FLAGS = {"]
    for field, name in fields.items():
        if name not in flags:
            continue
        f = flags[name]
        help_text = f["help"] + (" Not supported yet." if f.get("later") else "")
        lines.append(
            f"    {quoted(field)}: Flag({quoted(name)}, {words(f.get('aliases', []))}, {quoted(f['kind'])}, {f['type']}, "
            f"{words(f.get('choices', []))}, {quoted(f.get('value', ''))}, {f.get('secret', False)}, {quoted(help_text)}),"
        )
    lines += ["}"]
    return "\n".join(lines) + "\n"


def modules(document: str, before: str) -> dict[str, str]:
    """Return the modules for a document, by file name; before is the second as it stands."""
    table = json.loads(document)["flags"]
    return {"_flags.py": flags_module(table), "_fields.py": fields_module(table, before)}


def main() -> None:
    path = FOLDER / "_fields.py"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    for name, text in modules(sys.stdin.read(), before).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
