"""Made by `make golden` from the flags of the Go programs. Do not edit."""

from __future__ import annotations

import dataclasses
from typing import Any

from smg._flag import Flag


@dataclasses.dataclass
class Fields:
    """The flags of the gateway with their defaults."""

    worker_urls: list[str] = dataclasses.field(default_factory=list)
    host: str = "0.0.0.0"
    port: int = 30000
    pd_disaggregation: bool = False
    prefill_urls: list[tuple[str, int | None]] = dataclasses.field(default_factory=list)
    decode_urls: list[str] = dataclasses.field(default_factory=list)
    policy: str = "cache_aware"
    prefill_policy: str | None = None
    decode_policy: str | None = None
    worker_startup_timeout_secs: int = 1800
    worker_startup_check_interval: int = 30
    load_monitor_interval: int = 10
    cache_threshold: float = 0.3
    balance_abs_threshold: int = 64
    balance_rel_threshold: float = 1.5
    eviction_interval_secs: int = 120
    max_tree_size: int = 67108864
    max_idle_secs: int = 14400
    assignment_mode: str | None = None
    max_payload_size: int = 536870912
    bucket_adjust_interval_secs: int = 5
    dp_aware: bool = False
    enable_igw: bool = False
    api_key: str | None = None
    log_dir: str | None = None
    log_level: str = "info"
    log_json: bool = False
    service_discovery: Any = None
    selector: Any = None
    service_discovery_port: Any = None
    service_discovery_namespace: Any = None
    prefill_selector: Any = None
    decode_selector: Any = None
    bootstrap_port_annotation: Any = None
    prometheus_port: int = 29000
    prometheus_host: str = "0.0.0.0"
    prometheus_duration_buckets: list[float] = dataclasses.field(default_factory=list)
    request_id_headers: list[str] = dataclasses.field(default_factory=list)
    request_timeout_secs: int = 1800
    shutdown_grace_period_secs: int = 180
    max_concurrent_requests: int = -1
    queue_size: int = 100
    queue_timeout_secs: int = 60
    rate_limit_tokens_per_second: int = 0
    cors_allowed_origins: list[str] = dataclasses.field(default_factory=list)
    retry_max_retries: int = 5
    retry_initial_backoff_ms: int = 50
    retry_max_backoff_ms: int = 30000
    retry_backoff_multiplier: float = 1.5
    retry_jitter_factor: float = 0.2
    disable_retries: bool = False
    health_failure_threshold: int = 3
    health_success_threshold: int = 2
    health_check_timeout_secs: int = 5
    health_check_interval_secs: int = 60
    health_check_endpoint: str = "/health"
    disable_health_check: bool = False
    cb_failure_threshold: int = 10
    cb_success_threshold: int = 3
    cb_timeout_duration_secs: int = 60
    cb_window_duration_secs: int = 120
    disable_circuit_breaker: bool = False
    model_path: Any = None
    tokenizer_path: Any = None
    chat_template: Any = None
    served_model_name: Any = None
    tokenizer_cache_enable_l0: Any = None
    tokenizer_cache_l0_max_entries: Any = None
    tokenizer_cache_enable_l1: Any = None
    tokenizer_cache_l1_max_memory: Any = None
    reasoning_parser: Any = None
    tool_call_parser: Any = None
    mcp_config_path: Any = None
    backend: Any = None
    storage_hook_wasm_path: Any = None
    history_backend: Any = None
    oracle_wallet_path: Any = None
    oracle_tns_alias: Any = None
    oracle_connect_descriptor: Any = None
    oracle_username: Any = None
    oracle_password: Any = None
    oracle_external_auth: Any = None
    oracle_pool_min: Any = None
    oracle_pool_max: Any = None
    oracle_pool_timeout_secs: Any = None
    postgres_db_url: Any = None
    postgres_pool_max: Any = None
    redis_url: Any = None
    redis_pool_max: Any = None
    redis_retention_days: Any = None
    client_cert_path: str | None = None
    client_key_path: str | None = None
    ca_cert_paths: list[str] = dataclasses.field(default_factory=list)
    server_cert_path: str | None = None
    server_key_path: str | None = None
    enable_trace: bool = False
    otlp_traces_endpoint: str = "localhost:4317"
    control_plane_api_keys: Any = None
    control_plane_audit_enabled: Any = None
    jwt_issuer: Any = None
    jwt_audience: Any = None
    jwt_jwks_uri: Any = None
    jwt_role_mapping: Any = None
    worker_startup_delay: int = 0
    upstream_pool_idle_timeout_secs: int = 3
    max_buffered_bytes_total: int = 1073741824
    max_header_bytes: int = 65536
    read_header_timeout_secs: int = 10
    max_json_depth: int = 512
    no_color: bool = False
    cluster: str = "default"
    balance_token_usage_threshold: float = 1.0
    overload_token_usage_threshold: float = 1.0
    overlap_decay: float = 0.0
    selection_temperature: float = 0.0
    block_size: int = 16
    cache_index: str = "tree"
    cache_boundaries: str | None = None
    cache_ttl_secs: int = 180
    kv_indexer_ttl_secs: int | None = None
    kv_indexer_max_entries: int | None = None
    prefix_token_count: int = 256
    prefix_hash_load_factor: float = 1.25
    prefix_hash_balance_abs_threshold: int = 10
    power_of_two_load_metric: str = "expected_wait"
    least_load_kv_pressure_weight: float = 0.15
    least_load_default_throughput: float = 2000.0
    least_load_mean_prefill_tokens: int = 1024
    least_load_max_waiting_requests: int = 0
    routing_key_override: bool = False
    routing_key_headers: list[str] = dataclasses.field(default_factory=lambda: ["x-smg-routing-key"])
    model_alias: list[str] = dataclasses.field(default_factory=list)
    drain_settle_secs: int = 5
    remove_unhealthy_workers: bool = False
    disable_load_monitoring: bool = False
    engine_metrics: bool = False
    worker_overload_protection: bool = False
    worker_overload_waiting_requests: int | None = None
    worker_overload_token_usage: float | None = None
    epd_disaggregation: bool = False
    encode: list[tuple[str, int | None]] = dataclasses.field(default_factory=list)
    encode_policy: str = "consistent_hashing"
    dp_minimum_tokens_scheduler: bool = False
    pd_local_prefill_max_tokens: int = 0
    encode_fallback: str = "none"
    pd_n_mode: str = "list"
    pd_max_rooms_per_decode: int = 0
    pd_admission_wait_secs: int = 30
    max_buffered_request_bytes: int = 1048576
    stream_body_stall_timeout_secs: int = 300
    cluster_secret: str | None = None
    health_check_port: int | None = None
    log_requests: bool = False
    pprof_addr: str | None = None
    topology: str = "single"
    dry_run: bool = False
    nats_url: str | None = None
    nats_listen: int | None = None
    nats_replicas: int | None = None
    nats_creds: str | None = None
    nats_tls_ca: str | None = None
    plan_timeout_ms: int = 200
    degraded_selection: str = "local"
    record: str | None = None
    record_prompts: bool = False


# The flag behind each field.
FLAGS = {
    "worker_urls": Flag("worker-urls", (), "list", str, (), "URL...", False, "Engines to route to, such as http://w1:8000 http://w2:8000."),
    "host": Flag("host", (), "scalar", str, (), "HOST", False, "Address that the API listens on."),
    "port": Flag("port", (), "scalar", int, (), "PORT", False, "Port of the API."),
    "pd_disaggregation": Flag("pd-disaggregation", (), "bool", bool, (), "", False, "Send each request to a prefill and a decode worker."),
    "prefill_urls": Flag("prefill", (), "url_and_port", str, (), "URL [PORT|none]", False, "A prefill worker and its bootstrap port, once for each (with --pd-disaggregation)."),
    "decode_urls": Flag("decode", (), "repeated", str, (), "URL", False, "A decode worker, once for each (with --pd-disaggregation)."),
    "policy": Flag("policy", (), "scalar", str, ("random", "round_robin", "passthrough", "cache_aware", "power_of_two", "least_load", "prefix_hash", "consistent_hashing", "manual", "bucket"), "POLICY", False, "How a worker is chosen for a request (--help=policy lists them)."),
    "prefill_policy": Flag("prefill-policy", (), "scalar", str, ("random", "round_robin", "cache_aware", "power_of_two", "least_load", "prefix_hash", "consistent_hashing", "manual", "bucket"), "POLICY", False, "How a prefill worker is chosen, if not by --policy."),
    "decode_policy": Flag("decode-policy", (), "scalar", str, ("random", "round_robin", "cache_aware", "power_of_two", "least_load", "prefix_hash", "consistent_hashing", "manual", "bucket"), "POLICY", False, "How a decode worker is chosen, if not by --policy."),
    "worker_startup_timeout_secs": Flag("worker-startup-timeout-secs", (), "scalar", int, (), "SECS", False, "How long a worker that does not answer yet is waited for."),
    "worker_startup_check_interval": Flag("worker-startup-check-interval", (), "scalar", int, (), "SECS", False, "Pause between two probes of a worker that does not answer yet."),
    "load_monitor_interval": Flag("load-monitor-interval", (), "scalar", int, (), "SECS", False, "Pause between two questions for a worker's load."),
    "cache_threshold": Flag("cache-threshold", ("cache-match-threshold",), "scalar", float, (), "SHARE", False, "Share of a prompt, from 0 to 1, that a worker must hold more of to be preferred."),
    "balance_abs_threshold": Flag("balance-abs-threshold", ("spill-abs-threshold",), "scalar", int, (), "N", False, "How far a worker may be ahead of the others before its share goes elsewhere: requests for cache_aware, characters or tokens for bucket."),
    "balance_rel_threshold": Flag("balance-rel-threshold", ("spill-rel-threshold",), "scalar", float, (), "X", False, "The same as a multiple, 1 or more; both must be exceeded."),
    "eviction_interval_secs": Flag("eviction-interval", ("eviction-interval-secs",), "scalar", int, (), "SECS", False, "Pause between two clean-ups of prefix trees and pins; 0 never forgets a pin."),
    "max_tree_size": Flag("max-tree-size", (), "scalar", int, (), "N", False, "Characters, and tokens, that the prefix trees of a model keep."),
    "max_idle_secs": Flag("max-idle-secs", ("sticky-key-idle-secs",), "scalar", int, (), "SECS", False, "How long a key that does not come again stays pinned; 0 for ever."),
    "assignment_mode": Flag("assignment-mode", (), "scalar", str, ("random", "min_load", "min_group", "delegate"), "MODE", False, "Which worker a new key gets: random, min_load, min_group or delegate, by the policy itself (manual: random, sticky sessions: delegate)."),
    "max_payload_size": Flag("max-payload-size", (), "scalar", int, (), "BYTES", False, "Largest request body."),
    "bucket_adjust_interval_secs": Flag("bucket-adjust-interval-secs", (), "scalar", int, (), "SECS", False, "Pause between two looks at the ranges of prompt lengths, and how far back requests count."),
    "dp_aware": Flag("dp-aware", (), "bool", bool, (), "", False, "Make a worker, URL@RANK, of each data-parallel rank that an engine tells of."),
    "enable_igw": Flag("enable-igw", (), "bool", bool, (), "", False, "Serve each model as its workers can, regular or prefill and decode; workers come and go, and fewer than the policy needs are enough to start."),
    "api_key": Flag("api-key", (), "scalar", str, (), "KEY", True, "Key that clients must send as bearer token, and that goes to the workers named here."),
    "log_dir": Flag("log-dir", (), "scalar", str, (), "DIR", False, "Folder where the log is also written, to a file smg.YYYY-MM-DD of each day (UTC)."),
    "log_level": Flag("log-level", (), "scalar", str, ("debug", "info", "warn", "error"), "LEVEL", False, "Least level that is logged: debug, info, warn or error."),
    "log_json": Flag("log-json", (), "bool", bool, (), "", False, "Log one JSON object a line."),
    "prometheus_port": Flag("prometheus-port", (), "scalar", int, (), "PORT", False, "Port of the metrics, 0 takes a free one and logs it."),
    "prometheus_host": Flag("prometheus-host", (), "scalar", str, (), "HOST", False, "Address that the metrics listen on."),
    "prometheus_duration_buckets": Flag("prometheus-duration-buckets", (), "list", float, (), "SECS...", False, "Upper bounds of the buckets of all durations, ascending, instead of 0.001 to 7200."),
    "request_id_headers": Flag("request-id-headers", (), "list", str, (), "NAME...", False, "Request headers that may hold the request's id, the first one present is read (x-request-id, x-correlation-id, x-trace-id, request-id)."),
    "request_timeout_secs": Flag("request-timeout-secs", (), "scalar", int, (), "SECS", False, "Limit of a whole request, its stream included."),
    "shutdown_grace_period_secs": Flag("shutdown-grace-period-secs", (), "scalar", int, (), "SECS", False, "What running requests get after a stop signal."),
    "max_concurrent_requests": Flag("max-concurrent-requests", (), "scalar", int, (), "N", False, "Requests that run at the same time, their streams included; -1 is any number."),
    "queue_size": Flag("queue-size", (), "scalar", int, (), "N", False, "Requests that wait for their turn; 0 refuses at once what is too many."),
    "queue_timeout_secs": Flag("queue-timeout-secs", (), "scalar", int, (), "SECS", False, "How long a request waits for its turn."),
    "rate_limit_tokens_per_second": Flag("rate-limit-tokens-per-second", (), "scalar", int, (), "N", False, "Requests that may begin in a second, after --max-concurrent-requests at once; 0 is no such limit."),
    "cors_allowed_origins": Flag("cors-allowed-origins", (), "list", str, (), "ORIGIN...", False, "Origins whose web pages may use the API, such as https://chat.example.org; any without it."),
    "retry_max_retries": Flag("retry-max-retries", (), "scalar", int, (), "N", False, "Attempts that a request gets, the first included."),
    "retry_initial_backoff_ms": Flag("retry-initial-backoff-ms", (), "scalar", int, (), "MS", False, "Wait before the second attempt."),
    "retry_max_backoff_ms": Flag("retry-max-backoff-ms", (), "scalar", int, (), "MS", False, "Longest wait between two attempts."),
    "retry_backoff_multiplier": Flag("retry-backoff-multiplier", (), "scalar", float, (), "X", False, "How much longer each wait is than the one before."),
    "retry_jitter_factor": Flag("retry-jitter-factor", (), "scalar", float, (), "SHARE", False, "Share by which waits are varied, from 0 to 1."),
    "disable_retries": Flag("disable-retries", (), "bool", bool, (), "", False, "Try every request once."),
    "health_failure_threshold": Flag("health-failure-threshold", (), "scalar", int, (), "N", False, "Failed probes in a row that make a worker unhealthy."),
    "health_success_threshold": Flag("health-success-threshold", (), "scalar", int, (), "N", False, "Good probes in a row that make it healthy again."),
    "health_check_timeout_secs": Flag("health-check-timeout-secs", (), "scalar", int, (), "SECS", False, "Limit of one probe."),
    "health_check_interval_secs": Flag("health-check-interval-secs", (), "scalar", int, (), "SECS", False, "Pause between two probes of a worker."),
    "health_check_endpoint": Flag("health-check-endpoint", (), "scalar", str, (), "PATH", False, "Path that is probed."),
    "disable_health_check": Flag("disable-health-check", (), "bool", bool, (), "", False, "Probe nobody: every worker counts as healthy."),
    "cb_failure_threshold": Flag("cb-failure-threshold", (), "scalar", int, (), "N", False, "Failures in a row that take a worker out of service."),
    "cb_success_threshold": Flag("cb-success-threshold", (), "scalar", int, (), "N", False, "Good requests in a row that bring a worker back."),
    "cb_timeout_duration_secs": Flag("cb-timeout-duration-secs", (), "scalar", int, (), "SECS", False, "How long a worker is out of service before it is tried again."),
    "cb_window_duration_secs": Flag("cb-window-duration-secs", (), "scalar", int, (), "SECS", False, "Age from which a worker's failures do not count any more."),
    "disable_circuit_breaker": Flag("disable-circuit-breaker", (), "bool", bool, (), "", False, "Go on sending requests to workers that fail."),
    "client_cert_path": Flag("client-cert-path", (), "scalar", str, (), "FILE", False, "Certificate to show to https engines that ask for one; read again when it is renewed."),
    "client_key_path": Flag("client-key-path", (), "scalar", str, (), "FILE", False, "Key of that certificate."),
    "ca_cert_paths": Flag("ca-cert-paths", (), "list", str, (), "FILE...", False, "Authorities that the certificates of https engines are checked against, besides the system's."),
    "server_cert_path": Flag("tls-cert-path", (), "scalar", str, (), "FILE", False, "Certificates of the API in PEM form, its own first, for HTTPS on its port; read again when they are renewed."),
    "server_key_path": Flag("tls-key-path", (), "scalar", str, (), "FILE", False, "Key of that certificate."),
    "enable_trace": Flag("enable-trace", (), "bool", bool, (), "", False, "Send OpenTelemetry traces of requests."),
    "otlp_traces_endpoint": Flag("otlp-traces-endpoint", (), "scalar", str, (), "HOST:PORT", False, "Collector of traces, which speaks OTLP over gRPC without TLS."),
    "worker_startup_delay": Flag("worker-startup-delay", (), "scalar", int, (), "SECS", False, "Wait before a worker is probed for the first time."),
    "upstream_pool_idle_timeout_secs": Flag("upstream-pool-idle-timeout-secs", (), "scalar", int, (), "SECS", False, "How long an unused connection to a worker is kept, 0 for ever; stay below the engine's own limit."),
    "max_buffered_bytes_total": Flag("max-buffered-bytes-total", (), "scalar", int, (), "BYTES", False, "What all buffered request bodies may take together."),
    "max_header_bytes": Flag("max-header-bytes", (), "scalar", int, (), "BYTES", False, "Largest request head."),
    "read_header_timeout_secs": Flag("read-header-timeout-secs", (), "scalar", int, (), "SECS", False, "How long a client may take to send a request's head."),
    "max_json_depth": Flag("max-json-depth", (), "scalar", int, (), "N", False, "Deepest nesting of a JSON body."),
    "no_color": Flag("no-color", (), "bool", bool, (), "", False, "No colours and no status lines on a terminal either."),
    "cluster": Flag("cluster", (), "scalar", str, (), "NAME", False, "Name that keeps the messages of several gateways apart."),
    "balance_token_usage_threshold": Flag("balance-token-usage-threshold", (), "scalar", float, (), "SHARE", False, "Difference of KV cache usage between workers from which on what they hold does not matter; 1.0 switches it off."),
    "overload_token_usage_threshold": Flag("overload-token-usage-threshold", (), "scalar", float, (), "SHARE", False, "KV cache usage of a worker from which on what workers hold does not matter; 1.0 switches it off."),
    "overlap_decay": Flag("overlap-decay", (), "scalar", float, (), "X", False, "How much the backlog of a worker takes from the worth of what it holds; 0 for nothing."),
    "selection_temperature": Flag("selection-temperature", (), "scalar", float, (), "X", False, "Chance among the workers that hold something of a prompt; 0 always takes one that holds most."),
    "block_size": Flag("block-size", (), "scalar", int, (), "TOKENS", False, "Tokens of a block of the engines' KV cache, where they do not say it."),
    "cache_index": Flag("cache-index", (), "scalar", str, ("tree", "hash"), "INDEX", False, "How prompts are remembered: tree (whole) or hash (up to each of --cache-boundaries, for prompts that come as tokens)."),
    "cache_boundaries": Flag("cache-boundaries", (), "scalar", str, (), "N[,N]", False, "Positions in a prompt, in tokens and ascending, up to which prompts are compared, such as 2048,8192."),
    "cache_ttl_secs": Flag("cache-ttl-secs", (), "scalar", int, (), "SECS", False, "How long the hash index remembers a prompt that does not come again."),
    "kv_indexer_ttl_secs": Flag("kv-indexer-ttl-secs", (), "scalar", int, (), "SECS", False, "How long a block that an engine says it holds is remembered without being asked for; 0 until the engine drops it."),
    "kv_indexer_max_entries": Flag("kv-indexer-max-entries", (), "scalar", int, (), "N", False, "Blocks that are remembered of all engines of a model; 0 for any number."),
    "prefix_token_count": Flag("prefix-token-count", (), "scalar", int, (), "TOKENS", False, "Tokens of a prompt's head that are hashed; of text, four characters for each."),
    "prefix_hash_load_factor": Flag("prefix-hash-load-factor", (), "scalar", float, (), "X", False, "Multiple of the mean, 1 or more, beyond which a worker has too many requests."),
    "prefix_hash_balance_abs_threshold": Flag("prefix-hash-balance-abs-threshold", (), "scalar", int, (), "N", False, "Requests above the mean that a worker may always have."),
    "power_of_two_load_metric": Flag("power-of-two-load-metric", (), "scalar", str, ("expected_wait", "requests", "least_requests"), "METRIC", False, "What two workers are compared by: expected_wait or requests in flight; least_requests looks at all workers."),
    "least_load_kv_pressure_weight": Flag("least-load-kv-pressure-weight", (), "scalar", float, (), "SECS", False, "Weight of a full KV cache, in seconds of expected wait; 0 for none."),
    "least_load_default_throughput": Flag("least-load-default-throughput", (), "scalar", float, (), "TOKENS/S", False, "Throughput of a worker that reports none."),
    "least_load_mean_prefill_tokens": Flag("least-load-mean-prefill-tokens", (), "scalar", int, (), "TOKENS", False, "Tokens of a request whose tokens are not known."),
    "least_load_max_waiting_requests": Flag("least-load-max-waiting-requests", (), "scalar", int, (), "N", False, "Waiting requests from which on a worker gets no more; 0 for no limit."),
    "routing_key_override": Flag("routing-key-override", ("sticky-sessions",), "bool", bool, (), "", False, "Sticky sessions: keep the requests of a routing key on one worker, on top of any policy."),
    "routing_key_headers": Flag("routing-key-headers", (), "list", str, (), "NAME...", False, "Request headers that may hold the routing key, the first one present is read."),
    "model_alias": Flag("model-alias", (), "repeated", str, (), "ALIAS=MODEL", False, "Another name that requests may call a model by; the names that workers bring come first. May be given several times."),
    "drain_settle_secs": Flag("drain-settle-secs", (), "scalar", int, (), "SECS", False, "How long a worker that is removed is kept, without new requests, for those that it has; 0 removes it at once."),
    "remove_unhealthy_workers": Flag("remove-unhealthy-workers", ("worker-auto-recovery",), "bool", bool, (), "", False, "Remove a worker whose probes go on to fail; POST /workers adds it again."),
    "disable_load_monitoring": Flag("disable-load-monitoring", (), "bool", bool, (), "", False, "Ask for loads only where a policy, overload protection or --engine-metrics needs them."),
    "engine_metrics": Flag("engine-metrics", (), "bool", bool, (), "", False, "Ask for loads in any case, for the smg_engine_ metrics."),
    "worker_overload_protection": Flag("worker-overload-protection", (), "bool", bool, (), "", False, "Send nothing to workers that report too much load: 0.9 of the KV cache in use, if no other limit is given for it."),
    "worker_overload_waiting_requests": Flag("worker-overload-waiting-requests", (), "scalar", int, (), "N", False, "Send nothing to workers with so many waiting requests, or more."),
    "worker_overload_token_usage": Flag("worker-overload-token-usage", (), "scalar", float, (), "SHARE", False, "Send nothing to workers that use this share of their KV cache, or more."),
    "epd_disaggregation": Flag("epd-disaggregation", (), "bool", bool, (), "", False, "Send each request to a prefill and a decode worker, and its media to encode workers."),
    "encode": Flag("encode", (), "url_and_port", str, (), "URL [PORT|none]", False, "An encode worker and its bootstrap port, once for each (with --epd-disaggregation)."),
    "encode_policy": Flag("encode-policy", (), "scalar", str, ("random", "round_robin", "consistent_hashing"), "POLICY", False, "How an encode worker is chosen: random, round_robin or consistent_hashing."),
    "dp_minimum_tokens_scheduler": Flag("dp-minimum-tokens-scheduler", (), "bool", bool, (), "", False, "Have the data-parallel rank with the fewest tokens in use serve each leg of a request."),
    "pd_local_prefill_max_tokens": Flag("pd-local-prefill-max-tokens", (), "scalar", int, (), "N", False, "Prompt tokens not known to be cached up to which a vLLM decode worker needs no prefill worker; 0 for always."),
    "encode_fallback": Flag("encode-fallback", (), "scalar", str, ("none", "prefill"), "LEG", False, "Who gets media for which no encode worker is available: none, or a prefill worker whose label accepted_media has their type."),
    "pd_n_mode": Flag("pd-n-mode", (), "scalar", str, ("list", "split"), "MODE", False, "How SGLang legs are asked for several answers of a chat (n): as a list of rooms, or split into a request for each, for engines that refuse lists."),
    "pd_max_rooms_per_decode": Flag("pd-max-rooms-per-decode", (), "scalar", int, (), "N", False, "Sequences that a decode worker gets at a time, of all gateways together; 0 for as many as it reports to run, or any number if it reports none."),
    "pd_admission_wait_secs": Flag("pd-admission-wait-secs", (), "scalar", int, (), "SECS", False, "How long a request waits for a decode worker with room, before it is refused with 503; 0 refuses it at once."),
    "max_buffered_request_bytes": Flag("max-buffered-request-bytes", (), "scalar", int, (), "BYTES", False, "Largest request body that is kept for a retry; larger ones are passed on unread where no policy needs their text."),
    "stream_body_stall_timeout_secs": Flag("stream-body-stall-timeout-secs", (), "scalar", int, (), "SECS", False, "How long a client may pause in a body that is passed on unread; 0 is any time."),
    "cluster_secret": Flag("cluster-secret", (), "scalar", str, (), "SECRET", True, "What the keys of single workers are sealed with on the message bus (--api-key), the same for all services."),
    "health_check_port": Flag("health-check-port", (), "scalar", int, (), "PORT", False, "Port where /health, /liveness and /readiness are answered, whatever the load of the API."),
    "log_requests": Flag("log-requests", (), "bool", bool, (), "", False, "Log when each request comes and when it ends at info, warn and error, and not at debug."),
    "pprof_addr": Flag("pprof-addr", (), "scalar", str, (), "HOST:PORT", False, "Address where profiles of the process can be fetched, under /debug/pprof/; nobody is asked who he is."),
    "topology": Flag("topology", (), "scalar", str, ("single", "split"), "NAME", False, "single: all services in one process; split: a child process for each."),
    "dry_run": Flag("dry-run", (), "bool", bool, (), "", False, "Say what would be done, as smg check does, and do nothing."),
    "nats_url": Flag("nats-url", (), "scalar", str, (), "URL[,URL]", True, "NATS servers to use instead of the built-in one, such as nats://n1:4222,nats://n2:4222."),
    "nats_listen": Flag("nats-listen", (), "scalar", int, (), "USER:PASSWORD@HOST:PORT", True, "Address of the built-in NATS server, so that other services can join with these credentials."),
    "nats_replicas": Flag("nats-replicas", (), "scalar", int, (), "N", False, "Copies that a NATS cluster keeps of who exists (3, or one for each server where there are fewer)."),
    "nats_creds": Flag("nats-creds", (), "scalar", str, (), "FILE", False, "Credentials for the NATS servers."),
    "nats_tls_ca": Flag("nats-tls-ca", (), "scalar", str, (), "FILE", False, "Certificates that those of the NATS servers are checked against."),
    "plan_timeout_ms": Flag("plan-timeout-ms", (), "scalar", int, (), "MS", False, "How long a selector may take to answer."),
    "degraded_selection": Flag("degraded-selection", (), "scalar", str, ("local", "fail"), "HOW", False, "Without an answer, choose from what is known here (local) or refuse the request (fail)."),
    "record": Flag("record", (), "scalar", str, (), "FILE", False, "Write what selectors are asked and choose to a file that smg replay reads, compressed if its name ends in .gz; prompts as digests."),
    "record_prompts": Flag("record-prompts", (), "bool", bool, (), "", False, "Write prompts themselves into the recording."),
}
