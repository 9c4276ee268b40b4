package mooncake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A trace is looked for in this order: by its name, by the variable, and in a folder
// shared/data here or in a folder above.
const (
	// Variable is the variable of the environment that may name a trace.
	Variable = "SMG_TRACE"
	// File is what a trace is called in the folders that are searched.
	File = "mooncake-conversation.jsonl"
)

// Find returns the path of a trace, which is name unless that is empty. Its error
// says how to name one by the flag -trace, which every command has that needs one.
func Find(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the trace: %w", err)
	}
	for {
		path := filepath.Join(dir, "shared", "data", File)
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for the trace: %w", err)
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("there is no shared/data/%s here or above: name the trace with -trace FILE or %s; it comes with the Mooncake release (kvcache-ai/Mooncake)", File, Variable)
		}
		dir = above
	}
}

// Load reads the first n requests of a trace, or all of them if n is 0.
func Load(path string, n int) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the trace: %w", err)
	}
	defer f.Close()
	lines, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n > 0 {
		lines = lines[:min(n, len(lines))]
	}
	return lines, nil
}
