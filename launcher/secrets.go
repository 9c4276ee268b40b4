package launcher

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// hidden stands for what is nobody else's business.
const hidden = "***"

// maskedLength is the shortest secret that is looked for in an engine's output: a
// shorter one would be found in words that have nothing to do with it.
const maskedLength = 6

// redactArgs is an engine's command line as others may read it: without the values of
// flags that carry keys, tokens and passwords, and without the credentials of URLs.
func redactArgs(argv []string) []string {
	shown, _ := takeSecrets(argv)
	return shown
}

// maskOf replaces the secrets of a command line in whatever the engine writes, since
// engines like to print what they were given. It is nil if there are none.
func maskOf(argv []string) *strings.Replacer {
	_, secrets := takeSecrets(argv)
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < maskedLength })
	if len(secrets) == 0 {
		return nil
	}
	// The longest first: one may be the beginning of another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, hidden)
	}
	return strings.NewReplacer(pairs...)
}

// credentials are those of a URL.
var credentials = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^/@\s]+)@`)

// takeSecrets tells a command line apart from what must not be shown of it.
func takeSecrets(argv []string) (shown, secrets []string) {
	shown = make([]string, 0, len(argv))
	values := 0 // behind a secret flag: how many values there have been, plus 1
	for _, arg := range argv {
		name, value, has := strings.Cut(arg, "=")
		switch {
		case values == 1 && !strings.HasPrefix(arg, "--"), values > 1 && !strings.HasPrefix(arg, "-"):
			// Some engines take several keys behind one flag.
			secrets = append(secrets, arg)
			shown = append(shown, hidden)
			values++
			continue
		case secretFlag(name) && has:
			secrets = append(secrets, value)
			shown = append(shown, name+"="+hidden)
			values = 0
			continue
		case secretFlag(name):
			values = 1
		default:
			values = 0
		}
		for _, m := range credentials.FindAllStringSubmatch(arg, -1) {
			if _, password, ok := strings.Cut(m[2], ":"); ok {
				secrets = append(secrets, password)
			}
		}
		shown = append(shown, credentials.ReplaceAllString(arg, "${1}"+hidden+"@"))
	}
	return shown, secrets
}

// secretFlag says whether the values of an engine's flag are to be hidden.
func secretFlag(flag string) bool {
	name := strings.TrimLeft(flag, "-")
	if name == flag {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, word := range []string{"key", "token", "password", "secret"} {
		if name == word || strings.HasSuffix(name, "-"+word) {
			return true
		}
	}
	// llama.cpp has a short form, and Python's engines take beginnings of names.
	return name == "hft" || slices.Contains([]string{"api-k", "api-ke", "hf-t", "hf-to", "hf-tok", "hf-toke"}, name) ||
		(strings.HasPrefix(name, "admin-a") && strings.HasPrefix("admin-api-key", name))
}
