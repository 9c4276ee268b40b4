#!/bin/sh
# Known vulnerabilities in what the programs really call: vuln.sh [PACKAGE...]
# The vulnerability database is itself a Go module, so the module proxy is enough.
set -eu
cd "$(dirname "$0")/.."

db=$(mktemp -d)
trap 'rm -rf "$db"' EXIT

dir=$(go mod download -json golang.org/x/vulndb@latest | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
go -C "$dir" run ./cmd/indexdb -out "$db" -vulns "$dir/data/osv"
go tool -modfile=tools/go.mod govulncheck -db "file://$db" "${@:-./...}"
