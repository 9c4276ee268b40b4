// Package chattemplate makes the prompt of a chat as the model's authors wrote it down:
// it finds the template of a model (chat_template.jinja, tokenizer_config.json, a file of
// the operator's) and runs it over messages as the Python package transformers does, with
// the same variables. Package jinja is what runs it, within limits.
//
// The package knows no requests: messages are values of package jinja.
package chattemplate
