// Package jinja runs templates as the Python package jinja2 does in the setting in which
// models' chat templates are written for it (ADR 22): trim_blocks and lstrip_blocks are
// on, break and continue are known, values are those of JSON, and nothing can be changed
// that was given. What it does not know it refuses by name; it never guesses.
//
// Templates come with models and are taken as hostile: length, depth, steps, memory and
// output are bounded by [Limits], time by the context.
//
// A value is nil (None), bool, int64, *big.Int beyond its range, float64, string,
// [*List], [*Dict], or what a template makes of these.
package jinja
