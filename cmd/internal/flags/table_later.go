package flags

import "slices"

// Groups of flags that are not built yet, besides those of launchTable.
const (
	groupModels    = "models"
	groupDiscovery = "discovery"
	groupTenants   = "tenants"
	groupStorage   = "storage"
	groupMesh      = "mesh"
)

// laterTable defines the flags whose features are not built yet. Who builds one moves
// its row to the table of the feature and gives it a set in place of Later.
func laterTable() []Def {
	return slices.Concat(
		later(groupWorkers, everyProcess,
			Def{Name: "upstream-http2", Kind: Bool, Help: "Speak HTTP/2 without TLS to workers."},
			Def{Name: "zmq-engine-count", Kind: Scalar, Value: "N", Help: "Engines behind each ipc:// worker."},
			Def{Name: "job-queue-capacity", Kind: Scalar, Value: "N", Default: "1000", Help: "Changes of workers that may wait."},
			Def{Name: "job-queue-concurrency", Kind: Scalar, Value: "N", Default: "200", Help: "Changes of workers made at a time."},
		),
		later(groupDiscovery, everyProcess,
			Def{Name: "service-discovery", Kind: Bool, Help: "Find workers among the pods of Kubernetes."},
			Def{Name: "selector", Kind: List, Value: "KEY=VALUE...", Help: "Labels of the pods that are workers."},
			Def{Name: "encode-selector", Kind: List, Value: "KEY=VALUE...", Help: "Labels of the pods that are encode workers."},
			Def{Name: "prefill-selector", Kind: List, Value: "KEY=VALUE...", Help: "Labels of the pods that are prefill workers."},
			Def{Name: "decode-selector", Kind: List, Value: "KEY=VALUE...", Help: "Labels of the pods that are decode workers."},
			Def{Name: "router-selector", Kind: List, Value: "KEY=VALUE...", Help: "Labels of the pods that are gateways of the mesh."},
			Def{Name: "service-discovery-port", Kind: Scalar, Value: "PORT", Default: "80", Help: "Port of pods that do not say theirs."},
			Def{Name: "service-discovery-namespace", Kind: Scalar, Value: "NAME", Help: "Namespace of the pods (all)."},
			Def{Name: "model-id-from", Kind: Scalar, Value: "WHERE", Help: "What names a pod's model: namespace, label:KEY or annotation:KEY."},
		),
		later(groupModels, everyProcess,
			Def{Name: "tokenizer-cache-enable-l0", Kind: Bool, Help: "Keep the tokens of whole prompts."},
			Def{Name: "tokenizer-cache-l0-max-entries", Kind: Scalar, Value: "N", Default: "10000", Help: "Whole prompts to keep the tokens of."},
			Def{Name: "tokenizer-cache-enable-l1", Kind: Bool, Help: "Keep the tokens of beginnings of prompts."},
			Def{Name: "tokenizer-cache-l1-max-memory", Kind: Scalar, Value: "BYTES", Default: "52428800", Help: "Memory for the tokens of beginnings of prompts."},
			Def{Name: "reasoning-parser", Kind: Scalar, Value: "NAME", Help: "How the gateway finds a model's reasoning in its answers."},
			Def{Name: "tool-call-parser", Kind: Scalar, Value: "NAME", Help: "How the gateway finds tool calls in a model's answers."},
			Def{
				Name: "multimodal-tensor-transport", Kind: Scalar, Value: "HOW", Default: "inline", Env: []string{"SMG_MM_TENSOR_TRANSPORT"},
				Help: "How tensors of media go to the engines: inline, shm, auto or rdma.",
			},
			Def{
				Name: "multimodal-shm-min-bytes", Kind: Scalar, Value: "BYTES", Default: "65536", Env: []string{"SMG_MM_SHM_MIN_BYTES"},
				Help: "Size of tensors from which on shared memory is used.",
			},
		),
		later(groupTenants, plain,
			Def{Name: "trust-tenant-header", Kind: Bool, Help: "Take a request's tenant from a header."},
			Def{Name: "tenant-header-name", Kind: Scalar, Value: "NAME", Default: "x-smg-tenant-id", Help: "Header that names the tenant."},
			Def{Name: "priority-scheduler-enabled", Kind: Bool, Help: "Let requests of higher classes go first."},
			Def{Name: "priority-scheduler-default-max-class", Kind: Scalar, Value: "CLASS", Default: "default", Help: "Highest class of a tenant that is not configured."},
			Def{Name: "priority-scheduler-config", Kind: Scalar, Value: "FILE", Help: "Classes and their tenants."},
			Def{Name: "priority-scheduler-tenant-metric-top-n", Kind: Scalar, Value: "N", Default: "32", Help: "Tenants that have metrics of their own."},
			Def{Name: "tenant-rate-limit-enabled", Kind: Bool, Help: "Limit the requests of each tenant."},
			Def{Name: "tenant-rate-limit-config", Kind: Scalar, Value: "FILE", Help: "Limits of tenants."},
			Def{Name: "tenant-api-key", Kind: Repeated, Value: "TENANT=KEY", Secret: true, Help: "Key of a tenant."},
		),
		later(groupSecurity, everyProcess,
			Def{
				Name: "control-plane-api-keys", Kind: List, Value: "ID:NAME:ROLE:KEY...", Env: []string{"CONTROL_PLANE_API_KEYS"}, Secret: true,
				Help: "Keys of administrators, who alone may change workers.",
			},
			Def{Name: "jwt-issuer", Kind: Scalar, Value: "URL", Env: []string{"JWT_ISSUER"}, Help: "Who signs the tokens of administrators."},
			Def{Name: "jwt-audience", Kind: Scalar, Value: "NAME", Env: []string{"JWT_AUDIENCE"}, Help: "Whom the tokens of administrators are for."},
			Def{Name: "jwt-jwks-uri", Kind: Scalar, Value: "URL", Env: []string{"JWT_JWKS_URI"}, Help: "Where the keys are that check tokens."},
			Def{Name: "jwt-role-claim", Kind: Scalar, Value: "NAME", Default: "roles", Help: "Claim of a token with the administrator's roles."},
			Def{Name: "jwt-role-mapping", Kind: List, Value: "ROLE=admin|user...", Help: "What roles of tokens mean here."},
			Def{Name: "control-plane-audit-enabled", Kind: Bool, Help: "Log who changed workers."},
			Def{Name: "disable-audit-logging", Kind: Bool, Help: "Do not log who changed workers."},
		),
		later(groupStorage, everyProcess,
			Def{
				Name: "history-backend", Kind: Scalar, Value: "NAME", Default: "memory", Also: []string{"none"},
				Help: "Where conversations are kept: memory, none, oracle, postgres or redis.",
			},
			Def{Name: "schema-config", Kind: Scalar, Value: "FILE", Help: "Names of tables and columns."},
			Def{Name: "storage-hook-wasm-path", Kind: Scalar, Value: "FILE", Help: "Program that sees what is stored."},
			Def{Name: "storage-context-headers", Kind: List, Value: "HEADER=KEY...", Help: "Request headers that are stored too."},
			Def{Name: "enable-wasm", Kind: Bool, Help: "Run programs of users in the gateway."},
			Def{Name: "mcp-config-path", Kind: Scalar, Value: "FILE", Help: "Tool servers that the gateway calls."},
			Def{Name: "oracle-wallet-path", Kind: Scalar, Value: "DIR", Env: []string{"ATP_WALLET_PATH"}, Help: "Wallet of an Oracle database."},
			Def{Name: "oracle-tns-alias", Kind: Scalar, Value: "NAME", Env: []string{"ATP_TNS_ALIAS"}, Help: "Name of an Oracle database in its wallet."},
			Def{
				Name: "oracle-dsn", Aliases: []string{"oracle-connect-descriptor"}, Kind: Scalar, Value: "DSN", Env: []string{"ATP_DSN"}, Secret: true,
				Help: "Address of an Oracle database.",
			},
			Def{Name: "oracle-user", Aliases: []string{"oracle-username"}, Kind: Scalar, Value: "NAME", Env: []string{"ATP_USER"}, Help: "User of an Oracle database."},
			Def{Name: "oracle-password", Kind: Scalar, Value: "PASSWORD", Env: []string{"ATP_PASSWORD"}, Secret: true, Help: "Password of that user."},
			Def{Name: "oracle-external-auth", Kind: Bool, Env: []string{"ATP_EXTERNAL_AUTH"}, Help: "Have the system vouch for that user."},
			Def{Name: "oracle-pool-min", Kind: Scalar, Value: "N", Default: "1", Env: []string{"ATP_POOL_MIN"}, Help: "Fewest connections to an Oracle database."},
			Def{Name: "oracle-pool-max", Kind: Scalar, Value: "N", Default: "16", Env: []string{"ATP_POOL_MAX"}, Help: "Most connections to an Oracle database."},
			Def{
				Name: "oracle-pool-timeout-secs", Kind: Scalar, Value: "SECS", Default: "30", Env: []string{"ATP_POOL_TIMEOUT_SECS"},
				Help: "How long a connection to an Oracle database is waited for.",
			},
			Def{Name: "postgres-db-url", Kind: Scalar, Value: "URL", Env: []string{"POSTGRES_DB_URL"}, Secret: true, Help: "Address of a PostgreSQL database."},
			Def{
				Name: "postgres-pool-max-size", Aliases: []string{"postgres-pool-max"}, Kind: Scalar, Value: "N", Default: "16",
				Help: "Most connections to a PostgreSQL database.",
			},
			Def{Name: "redis-url", Kind: Scalar, Value: "URL", Env: []string{"REDIS_URL"}, Secret: true, Help: "Address of a Redis server."},
			Def{Name: "redis-pool-max-size", Aliases: []string{"redis-pool-max"}, Kind: Scalar, Value: "N", Default: "16", Help: "Most connections to a Redis server."},
			Def{Name: "redis-retention-days", Kind: Scalar, Value: "DAYS", Default: "30", Help: "How long Redis keeps conversations, below 0 for ever."},
		),
		later(groupMesh, everyProcess,
			Def{Name: "enable-mesh", Kind: Bool, Help: "Share what is known with other gateways."},
			Def{Name: "mesh-server-name", Kind: Scalar, Value: "NAME", Help: "This gateway's name in the mesh."},
			Def{Name: "mesh-host", Kind: Scalar, Value: "HOST", Default: "0.0.0.0", Help: "Address that the mesh listens on."},
			Def{Name: "mesh-advertise-host", Kind: Scalar, Value: "HOST", Help: "Address where the others reach this gateway."},
			Def{Name: "mesh-port", Kind: Scalar, Value: "PORT", Default: "39527", Help: "Port of the mesh."},
			Def{Name: "mesh-peer-urls", Kind: List, Value: "HOST:PORT...", Help: "Other gateways of the mesh."},
			Def{Name: "webrtc-bind-addr", Kind: Scalar, Value: "ADDRESS", Help: "Address for the media of WebRTC."},
			Def{Name: "webrtc-stun-server", Kind: Scalar, Value: "HOST:PORT", Help: "Server that tells this gateway its public address."},
			Def{Name: "runtime-worker-threads", Kind: Scalar, Value: "N", Help: "Threads that run at a time; the variable GOMAXPROCS says so today."},
		),
	)
}

// later are flags of one group that are not built yet.
func later(group string, in Scope, defs ...Def) []Def {
	for i := range defs {
		defs[i].Group, defs[i].In, defs[i].Later = group, in, true
	}
	return defs
}
