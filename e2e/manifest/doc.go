// Package manifest reads the YAML files of deploy for tests: block mappings and
// sequences, strings on one line, and nothing else, so that what it reads is the same
// for every reader of YAML.
package manifest
