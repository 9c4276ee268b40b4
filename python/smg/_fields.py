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
    service_discovery: bool = False
    selector: list[str] = dataclasses.field(default_factory=list)
    service_discovery_port: int = 80
    service_discovery_namespace: str | None = None
    prefill_selector: list[str] = dataclasses.field(default_factory=list)
    decode_selector: list[str] = dataclasses.field(default_factory=list)
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
    model_path: str | None = None
    tokenizer_path: str | None = None
    chat_template: str | None = None
    served_model_name: Any = None
    tokenizer_cache_enable_l0: bool = False
    tokenizer_cache_l0_max_entries: int = 10000
    tokenizer_cache_enable_l1: bool = False
    tokenizer_cache_l1_max_memory: int = 52428800
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    mcp_config_path: str | None = None
    backend: str = "auto"
    storage_hook_wasm_path: str | None = None
    history_backend: str = "memory"
    oracle_wallet_path: str | None = None
    oracle_tns_alias: str | None = None
    oracle_connect_descriptor: str | None = None
    oracle_username: str | None = None
    oracle_password: str | None = None
    oracle_external_auth: bool = False
    oracle_pool_min: int = 1
    oracle_pool_max: int = 16
    oracle_pool_timeout_secs: int = 30
    postgres_db_url: str | None = None
    postgres_pool_max: int = 16
    redis_url: str | None = None
    redis_pool_max: int = 16
    redis_retention_days: int = 30
    client_cert_path: str | None = None
    client_key_path: str | None = None
    ca_cert_paths: list[str] = dataclasses.field(default_factory=list)
    server_cert_path: str | None = None
    server_key_path: str | None = None
    enable_trace: bool = False
    otlp_traces_endpoint: str = "localhost:4317"
    control_plane_api_keys: list[str] = dataclasses.field(default_factory=list)
    control_plane_audit_enabled: bool = False
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_jwks_uri: str | None = None
    jwt_role_mapping: list[str] = dataclasses.field(default_factory=list)
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
    disable_tokenizer_autoload: bool = False
    upstream_http2: bool = False
    zmq_engine_count: str | None = None
    job_queue_capacity: int = 1000
    job_queue_concurrency: int = 200
    encode_selector: list[str] = dataclasses.field(default_factory=list)
    router_selector: list[str] = dataclasses.field(default_factory=list)
    model_id_from: str | None = None
    multimodal_tensor_transport: str = "inline"
    multimodal_shm_min_bytes: int = 65536
    trust_tenant_header: bool = False
    tenant_header_name: str = "x-smg-tenant-id"
    priority_scheduler_enabled: bool = False
    priority_scheduler_default_max_class: str = "default"
    priority_scheduler_config: str | None = None
    priority_scheduler_tenant_metric_top_n: int = 32
    tenant_rate_limit_enabled: bool = False
    tenant_rate_limit_config: str | None = None
    tenant_api_key: list[str] = dataclasses.field(default_factory=list)
    jwt_role_claim: str = "roles"
    disable_audit_logging: bool = False
    state_dir: str | None = None
    schema_config: str | None = None
    storage_context_headers: list[str] = dataclasses.field(default_factory=list)
    enable_wasm: bool = False
    enable_mesh: bool = False
    mesh_server_name: str | None = None
    mesh_host: str = "0.0.0.0"
    mesh_advertise_host: str | None = None
    mesh_port: int = 39527
    mesh_peer_urls: list[str] = dataclasses.field(default_factory=list)
    webrtc_bind_addr: str | None = None
    webrtc_stun_server: str | None = None
    runtime_worker_threads: str | None = None
    kv_events_endpoint: str | None = None
    kv_events_replay_endpoint: str | None = None


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
    "service_discovery": Flag("service-discovery", (), "bool", bool, (), "", False, "Find workers among the pods of Kubernetes. Not supported yet."),
    "selector": Flag("selector", (), "list", str, (), "KEY=VALUE...", False, "Labels of the pods that are workers. Not supported yet."),
    "service_discovery_port": Flag("service-discovery-port", (), "scalar", int, (), "PORT", False, "Port of pods that do not say theirs. Not supported yet."),
    "service_discovery_namespace": Flag("service-discovery-namespace", (), "scalar", str, (), "NAME", False, "Namespace of the pods (all). Not supported yet."),
    "prefill_selector": Flag("prefill-selector", (), "list", str, (), "KEY=VALUE...", False, "Labels of the pods that are prefill workers. Not supported yet."),
    "decode_selector": Flag("decode-selector", (), "list", str, (), "KEY=VALUE...", False, "Labels of the pods that are decode workers. Not supported yet."),
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
    "model_path": Flag("model-path", ("model",), "scalar", str, (), "MODEL", False, "Model of the engines, a name or a folder, for its tokenizer; not used with engines that speak HTTP."),
    "tokenizer_path": Flag("tokenizer-path", (), "scalar", str, (), "PATH", False, "Tokenizer, if it is not in the folder of the model; not used with engines that speak HTTP."),
    "chat_template": Flag("chat-template", (), "scalar", str, (), "FILE", False, "How messages become a prompt; not used with engines that speak HTTP."),
    "tokenizer_cache_enable_l0": Flag("tokenizer-cache-enable-l0", (), "bool", bool, (), "", False, "Keep the tokens of whole prompts. Not supported yet."),
    "tokenizer_cache_l0_max_entries": Flag("tokenizer-cache-l0-max-entries", (), "scalar", int, (), "N", False, "Whole prompts to keep the tokens of. Not supported yet."),
    "tokenizer_cache_enable_l1": Flag("tokenizer-cache-enable-l1", (), "bool", bool, (), "", False, "Keep the tokens of beginnings of prompts. Not supported yet."),
    "tokenizer_cache_l1_max_memory": Flag("tokenizer-cache-l1-max-memory", (), "scalar", int, (), "BYTES", False, "Memory for the tokens of beginnings of prompts. Not supported yet."),
    "reasoning_parser": Flag("reasoning-parser", (), "scalar", str, (), "NAME", False, "How the gateway finds a model's reasoning in its answers. Not supported yet."),
    "tool_call_parser": Flag("tool-call-parser", (), "scalar", str, (), "NAME", False, "How the gateway finds tool calls in a model's answers. Not supported yet."),
    "mcp_config_path": Flag("mcp-config-path", (), "scalar", str, (), "FILE", False, "Tool servers that the gateway calls. Not supported yet."),
    "backend": Flag("backend", ("runtime",), "scalar", str, ("auto", "sglang", "vllm", "llamacpp", "sim"), "NAME", False, "Kind of the engines that do not say theirs: auto, sglang, vllm, llamacpp or sim."),
    "storage_hook_wasm_path": Flag("storage-hook-wasm-path", (), "scalar", str, (), "FILE", False, "Program that sees what is stored. Not supported yet."),
    "history_backend": Flag("history-backend", (), "scalar", str, (), "NAME", False, "Where conversations are kept: memory, none, oracle, postgres or redis. Not supported yet."),
    "oracle_wallet_path": Flag("oracle-wallet-path", (), "scalar", str, (), "DIR", False, "Wallet of an Oracle database. Not supported yet."),
    "oracle_tns_alias": Flag("oracle-tns-alias", (), "scalar", str, (), "NAME", False, "Name of an Oracle database in its wallet. Not supported yet."),
    "oracle_connect_descriptor": Flag("oracle-dsn", ("oracle-connect-descriptor",), "scalar", str, (), "DSN", True, "Address of an Oracle database. Not supported yet."),
    "oracle_username": Flag("oracle-user", ("oracle-username",), "scalar", str, (), "NAME", False, "User of an Oracle database. Not supported yet."),
    "oracle_password": Flag("oracle-password", (), "scalar", str, (), "PASSWORD", True, "Password of that user. Not supported yet."),
    "oracle_external_auth": Flag("oracle-external-auth", (), "bool", bool, (), "", False, "Have the system vouch for that user. Not supported yet."),
    "oracle_pool_min": Flag("oracle-pool-min", (), "scalar", int, (), "N", False, "Fewest connections to an Oracle database. Not supported yet."),
    "oracle_pool_max": Flag("oracle-pool-max", (), "scalar", int, (), "N", False, "Most connections to an Oracle database. Not supported yet."),
    "oracle_pool_timeout_secs": Flag("oracle-pool-timeout-secs", (), "scalar", int, (), "SECS", False, "How long a connection to an Oracle database is waited for. Not supported yet."),
    "postgres_db_url": Flag("postgres-db-url", (), "scalar", str, (), "URL", True, "Address of a PostgreSQL database. Not supported yet."),
    "postgres_pool_max": Flag("postgres-pool-max-size", ("postgres-pool-max",), "scalar", int, (), "N", False, "Most connections to a PostgreSQL database. Not supported yet."),
    "redis_url": Flag("redis-url", (), "scalar", str, (), "URL", True, "Address of a Redis server. Not supported yet."),
    "redis_pool_max": Flag("redis-pool-max-size", ("redis-pool-max",), "scalar", int, (), "N", False, "Most connections to a Redis server. Not supported yet."),
    "redis_retention_days": Flag("redis-retention-days", (), "scalar", int, (), "DAYS", False, "How long Redis keeps conversations, below 0 for ever. Not supported yet."),
    "client_cert_path": Flag("client-cert-path", (), "scalar", str, (), "FILE", False, "Certificate to show to https engines that ask for one; read again when it is renewed."),
    "client_key_path": Flag("client-key-path", (), "scalar", str, (), "FILE", False, "Key of that certificate."),
    "ca_cert_paths": Flag("ca-cert-paths", (), "list", str, (), "FILE...", False, "Authorities that the certificates of https engines are checked against, besides the system's."),
    "server_cert_path": Flag("tls-cert-path", (), "scalar", str, (), "FILE", False, "Certificates of the API in PEM form, its own first, for HTTPS on its port; read again when they are renewed."),
    "server_key_path": Flag("tls-key-path", (), "scalar", str, (), "FILE", False, "Key of that certificate."),
    "enable_trace": Flag("enable-trace", (), "bool", bool, (), "", False, "Send OpenTelemetry traces of requests."),
    "otlp_traces_endpoint": Flag("otlp-traces-endpoint", (), "scalar", str, (), "HOST:PORT", False, "Collector of traces, which speaks OTLP over gRPC without TLS."),
    "control_plane_api_keys": Flag("control-plane-api-keys", (), "list", str, (), "ID:NAME:ROLE:KEY...", True, "Keys of administrators, who alone may change workers. Not supported yet."),
    "control_plane_audit_enabled": Flag("control-plane-audit-enabled", (), "bool", bool, (), "", False, "Log who changed workers. Not supported yet."),
    "jwt_issuer": Flag("jwt-issuer", (), "scalar", str, (), "URL", False, "Who signs the tokens of administrators. Not supported yet."),
    "jwt_audience": Flag("jwt-audience", (), "scalar", str, (), "NAME", False, "Whom the tokens of administrators are for. Not supported yet."),
    "jwt_jwks_uri": Flag("jwt-jwks-uri", (), "scalar", str, (), "URL", False, "Where the keys are that check tokens. Not supported yet."),
    "jwt_role_mapping": Flag("jwt-role-mapping", (), "list", str, (), "ROLE=admin|user...", False, "What roles of tokens mean here. Not supported yet."),
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
    "disable_tokenizer_autoload": Flag("disable-tokenizer-autoload", (), "bool", bool, (), "", False, "Load no tokenizer for models that workers bring; not used with engines that speak HTTP."),
    "upstream_http2": Flag("upstream-http2", (), "bool", bool, (), "", False, "Speak HTTP/2 without TLS to workers. Not supported yet."),
    "zmq_engine_count": Flag("zmq-engine-count", (), "scalar", str, (), "N", False, "Engines behind each ipc:// worker. Not supported yet."),
    "job_queue_capacity": Flag("job-queue-capacity", (), "scalar", int, (), "N", False, "Changes of workers that may wait. Not supported yet."),
    "job_queue_concurrency": Flag("job-queue-concurrency", (), "scalar", int, (), "N", False, "Changes of workers made at a time. Not supported yet."),
    "encode_selector": Flag("encode-selector", (), "list", str, (), "KEY=VALUE...", False, "Labels of the pods that are encode workers. Not supported yet."),
    "router_selector": Flag("router-selector", (), "list", str, (), "KEY=VALUE...", False, "Labels of the pods that are gateways of the mesh. Not supported yet."),
    "model_id_from": Flag("model-id-from", (), "scalar", str, (), "WHERE", False, "What names a pod's model: namespace, label:KEY or annotation:KEY. Not supported yet."),
    "multimodal_tensor_transport": Flag("multimodal-tensor-transport", (), "scalar", str, (), "HOW", False, "How tensors of media go to the engines: inline, shm, auto or rdma. Not supported yet."),
    "multimodal_shm_min_bytes": Flag("multimodal-shm-min-bytes", (), "scalar", int, (), "BYTES", False, "Size of tensors from which on shared memory is used. Not supported yet."),
    "trust_tenant_header": Flag("trust-tenant-header", (), "bool", bool, (), "", False, "Take a request's tenant from a header. Not supported yet."),
    "tenant_header_name": Flag("tenant-header-name", (), "scalar", str, (), "NAME", False, "Header that names the tenant. Not supported yet."),
    "priority_scheduler_enabled": Flag("priority-scheduler-enabled", (), "bool", bool, (), "", False, "Let requests of higher classes go first. Not supported yet."),
    "priority_scheduler_default_max_class": Flag("priority-scheduler-default-max-class", (), "scalar", str, (), "CLASS", False, "Highest class of a tenant that is not configured. Not supported yet."),
    "priority_scheduler_config": Flag("priority-scheduler-config", (), "scalar", str, (), "FILE", False, "Classes and their tenants. Not supported yet."),
    "priority_scheduler_tenant_metric_top_n": Flag("priority-scheduler-tenant-metric-top-n", (), "scalar", int, (), "N", False, "Tenants that have metrics of their own. Not supported yet."),
    "tenant_rate_limit_enabled": Flag("tenant-rate-limit-enabled", (), "bool", bool, (), "", False, "Limit the requests of each tenant. Not supported yet."),
    "tenant_rate_limit_config": Flag("tenant-rate-limit-config", (), "scalar", str, (), "FILE", False, "Limits of tenants. Not supported yet."),
    "tenant_api_key": Flag("tenant-api-key", (), "repeated", str, (), "TENANT=KEY", True, "Key of a tenant. Not supported yet."),
    "jwt_role_claim": Flag("jwt-role-claim", (), "scalar", str, (), "NAME", False, "Claim of a token with the administrator's roles. Not supported yet."),
    "disable_audit_logging": Flag("disable-audit-logging", (), "bool", bool, (), "", False, "Do not log who changed workers. Not supported yet."),
    "state_dir": Flag("state-dir", (), "scalar", str, (), "DIR", False, "Folder where the built-in NATS server keeps workers and pins over a restart (in memory, for as long as it runs)."),
    "schema_config": Flag("schema-config", (), "scalar", str, (), "FILE", False, "Names of tables and columns. Not supported yet."),
    "storage_context_headers": Flag("storage-context-headers", (), "list", str, (), "HEADER=KEY...", False, "Request headers that are stored too. Not supported yet."),
    "enable_wasm": Flag("enable-wasm", (), "bool", bool, (), "", False, "Run programs of users in the gateway. Not supported yet."),
    "enable_mesh": Flag("enable-mesh", (), "bool", bool, (), "", False, "Share what is known with other gateways. Not supported yet."),
    "mesh_server_name": Flag("mesh-server-name", (), "scalar", str, (), "NAME", False, "This gateway's name in the mesh. Not supported yet."),
    "mesh_host": Flag("mesh-host", (), "scalar", str, (), "HOST", False, "Address that the mesh listens on. Not supported yet."),
    "mesh_advertise_host": Flag("mesh-advertise-host", (), "scalar", str, (), "HOST", False, "Address where the others reach this gateway. Not supported yet."),
    "mesh_port": Flag("mesh-port", (), "scalar", int, (), "PORT", False, "Port of the mesh. Not supported yet."),
    "mesh_peer_urls": Flag("mesh-peer-urls", (), "list", str, (), "HOST:PORT...", False, "Other gateways of the mesh. Not supported yet."),
    "webrtc_bind_addr": Flag("webrtc-bind-addr", (), "scalar", str, (), "ADDRESS", False, "Address for the media of WebRTC. Not supported yet."),
    "webrtc_stun_server": Flag("webrtc-stun-server", (), "scalar", str, (), "HOST:PORT", False, "Server that tells this gateway its public address. Not supported yet."),
    "runtime_worker_threads": Flag("runtime-worker-threads", (), "scalar", str, (), "N", False, "Threads that run at a time; the variable GOMAXPROCS says so today. Not supported yet."),
    "kv_events_endpoint": Flag("kv-events-endpoint", (), "scalar", str, (), "tcp://HOST:PORT", False, "Where engines over HTTP publish their KV-cache events (ZeroMQ), for policy cache_aware; HOST * is the worker's, data-parallel ranks are at the ports that follow. A worker's label kv_events_endpoint goes first."),
    "kv_events_replay_endpoint": Flag("kv-events-replay-endpoint", (), "scalar", str, (), "tcp://HOST:PORT", False, "Where they send again what was missed, if they do. A worker's label kv_events_replay_endpoint goes first."),
}
