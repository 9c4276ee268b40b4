package chattemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"smg/tokenizer/jinja"
)

const (
	configFile   = "tokenizer_config.json"
	templateFile = "chat_template.jinja"
	// moreTemplates is where a model has named templates.
	moreTemplates = "additional_chat_templates"
	oldTemplate   = "chat_template.json"

	// maxFile bounds what is read of a file.
	maxFile = 64 << 20
	// maxNamed bounds how many templates a model has.
	maxNamed = 64
)

// ErrNone says that a model comes without a chat template.
var ErrNone = errors.New("the model has no chat template")

// defaultName is the template that is taken when nothing speaks for another, toolName
// the one for requests with tools.
const defaultName, toolName = "default", "tool_use"

// Templates are those of a model. They are safe for concurrent use. The zero Templates
// are none.
type Templates struct {
	named   map[string]*template
	special map[string]jinja.Value
}

type template struct {
	*jinja.Template
	source string
}

// Open finds the templates in a model's folder. Without any, the error is ErrNone, and
// With can still add one.
func Open(folder string) (*Templates, error) {
	t := &Templates{named: map[string]*template{}, special: map[string]jinja.Value{}}
	if err := t.config(folder); err != nil {
		return nil, err
	}
	if err := t.files(folder); err != nil {
		return nil, err
	}
	if len(t.named) == 0 {
		return t, fmt.Errorf("%s: %w", folder, ErrNone)
	}
	return t, nil
}

// New are templates of a source alone, with special tokens by the names that templates
// know (bos_token).
func New(name, source string, special map[string]string) (*Templates, error) {
	t := &Templates{named: map[string]*template{}, special: map[string]jinja.Value{}}
	for n, token := range special {
		t.special[n] = token
	}
	return t, t.add(defaultName, name, source)
}

// With are the same special tokens with the template of a file in place of all others.
func (t *Templates) With(path string) (*Templates, error) {
	source, err := read(path)
	if err != nil {
		return nil, err
	}
	n := &Templates{named: map[string]*template{}, special: t.special}
	return n, n.add(defaultName, path, string(source))
}

// add reads a template. where goes into errors.
func (t *Templates) add(name, where, source string) error {
	if strings.TrimSpace(source) == "" {
		return fmt.Errorf("chat template %s is empty", where)
	}
	if len(t.named) == maxNamed {
		return fmt.Errorf("more than %d chat templates", maxNamed)
	}
	parsed, err := jinja.Parse(where, source)
	if err != nil {
		return fmt.Errorf("chat %w", err)
	}
	t.named[name] = &template{parsed, source}
	return nil
}

// config reads what tokenizer_config.json has: templates and special tokens.
func (t *Templates) config(folder string) error {
	path := filepath.Join(folder, configFile)
	fields, err := fieldsOf(path)
	if err != nil {
		return err
	}
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"} {
		token, ok, err := tokenOf(fields[name])
		if err != nil {
			return fmt.Errorf("%s: %s is neither a string nor a token", path, name)
		}
		if ok {
			t.special[name] = token
		}
	}
	var more []json.RawMessage
	if json.Unmarshal(fields["additional_special_tokens"], &more) == nil && len(more) > 0 {
		l := &jinja.List{}
		for _, raw := range more {
			if token, ok, err := tokenOf(raw); ok && err == nil {
				l.Items = append(l.Items, token)
			}
		}
		t.special["additional_special_tokens"] = l
	}
	return t.configured(path, fields["chat_template"])
}

// tokenOf is a token that is given as a string or as an object.
func tokenOf(raw json.RawMessage) (string, bool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", false, nil
	}
	var token struct{ Content *string }
	if json.Unmarshal(raw, &token) == nil && token.Content != nil {
		return *token.Content, true, nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil, err
}

// configured adds a template that is a string, or several with names.
func (t *Templates) configured(path string, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return t.add(defaultName, path, one)
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return fmt.Errorf("%s: chat_template is neither a string nor a list of named ones", path)
	}
	for _, n := range named {
		if err := t.add(n.Name, path+" ("+n.Name+")", n.Template); err != nil {
			return err
		}
	}
	return nil
}

// files adds the templates that are files of their own, which count before the others.
func (t *Templates) files(folder string) error {
	path := filepath.Join(folder, templateFile)
	switch text, err := read(path); {
	case err == nil:
		if err := t.add(defaultName, path, string(text)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	paths, err := filepath.Glob(filepath.Join(folder, moreTemplates, "*.jinja"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	for _, path := range paths {
		text, err := read(path)
		if err != nil {
			return err
		}
		if err := t.add(strings.TrimSuffix(filepath.Base(path), ".jinja"), path, string(text)); err != nil {
			return err
		}
	}
	if len(t.named) > 0 {
		return nil
	}
	path = filepath.Join(folder, oldTemplate)
	fields, err := fieldsOf(path)
	if err != nil {
		return err
	}
	return t.configured(path, fields["chat_template"])
}

// fieldsOf are the members of a file that is an object, none if there is no file.
func fieldsOf(path string) (fields map[string]json.RawMessage, err error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		if err = json.Unmarshal(text, &fields); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return fields, err
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// None reports whether there is no template.
func (t *Templates) None() bool { return len(t.named) == 0 }

// Special is a special token by the name that templates know it by, "" if there is none.
func (t *Templates) Special(name string) string {
	s, _ := t.special[name].(string)
	return s
}
