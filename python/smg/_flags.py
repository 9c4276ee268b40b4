"""Made by `make golden` from the flags of the Go programs. Do not edit."""

# Values that the launcher refuses, and those that it leaves.
REFUSED = {
    "policy": ("bucket",),
    "decode-policy": ("bucket",),
}
CHOICES = {
    "policy": (
        "random",
        "round_robin",
        "passthrough",
        "cache_aware",
        "power_of_two",
        "least_load",
        "prefix_hash",
        "consistent_hashing",
        "manual",
    ),
    "decode-policy": (
        "random",
        "round_robin",
        "cache_aware",
        "power_of_two",
        "least_load",
        "prefix_hash",
        "consistent_hashing",
        "manual",
    ),
}

# Flags whose value may begin with a dash.
DASHED = ("max-concurrent-requests", "prefill-args", "decode-args", "encode-args")
