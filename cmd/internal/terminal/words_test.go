package terminal

import (
	"strings"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	seven := strings.Fields(strings.Repeat("http://w ", 7))
	tests := []struct{ name, got, want string }{
		{"one", Counted(1, "worker"), "1 worker"},
		{"none", Counted(0, "worker"), "0 workers"},
		{"seconds", Plain(30 * time.Second), "30s"},
		{"minutes", Plain(30 * time.Minute), "30m"},
		{"hours", Plain(2 * time.Hour), "2h"},
		{"hours and minutes", Plain(90 * time.Minute), "1h30m"},
		{"minutes and seconds", Plain(90 * time.Second), "1m30s"},
		{"few urls", Abridged(seven[:2]), "http://w, http://w"},
		{"many urls", Abridged(seven), "http://w, http://w, http://w, http://w, http://w and 2 more"},
		{"plain word", ShellWord("http://127.0.0.1:8080"), "http://127.0.0.1:8080"},
		{"brackets", ShellWord("http://[::1]:8080"), "'http://[::1]:8080'"},
		{"quotes", Quoted("it's"), `'it'\''s'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
		})
	}
}
