package main

import (
	"strings"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	seven := strings.Fields(strings.Repeat("http://w ", 7))
	tests := []struct{ name, got, want string }{
		{"one", counted(1, "worker"), "1 worker"},
		{"none", counted(0, "worker"), "0 workers"},
		{"seconds", plain(30 * time.Second), "30s"},
		{"minutes", plain(30 * time.Minute), "30m"},
		{"hours", plain(2 * time.Hour), "2h"},
		{"hours and minutes", plain(90 * time.Minute), "1h30m"},
		{"minutes and seconds", plain(90 * time.Second), "1m30s"},
		{"few urls", abridged(seven[:2]), "http://w, http://w"},
		{"many urls", abridged(seven), "http://w, http://w, http://w, http://w, http://w and 2 more"},
		{"plain word", shellWord("http://127.0.0.1:8080"), "http://127.0.0.1:8080"},
		{"brackets", shellWord("http://[::1]:8080"), "'http://[::1]:8080'"},
		{"quotes", quoted("it's"), `'it'\''s'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
		})
	}
}
