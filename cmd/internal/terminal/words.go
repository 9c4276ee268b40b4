package terminal

import (
	"fmt"
	"strings"
	"time"
)

// Counted is a number of things.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Plain leaves out the zeros of a duration that is whole minutes or hours.
func Plain(d time.Duration) string {
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}

// listed is how many workers the start-up lines name.
const listed = 5

// Abridged is the first of several URLs.
func Abridged(urls []string) string {
	if len(urls) <= listed {
		return strings.Join(urls, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(urls[:listed], ", "), len(urls)-listed)
}

// ShellWord quotes what a shell would expand, such as the brackets of an IPv6 host.
func ShellWord(s string) string {
	if strings.ContainsAny(s, "[]") {
		return Quoted(s)
	}
	return s
}

// Quoted is s as one word of a shell.
func Quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
