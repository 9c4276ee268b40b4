//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func TestCLITerminal(t *testing.T) {
	cases(t, map[string]func(t *testing.T){
		"79_narrow_terminal":        narrowTerminal,
		"79_no_color_on_a_terminal": noColorTerminal,
		"79_terminal_that_is_dumb":  dumbTerminal,
		"terminal_is_closed":        terminalClosed,
	})
}

// terminal is a pseudo terminal and what it shows.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the program has ended
	code   int
	closed chan struct{} // closed when nothing comes any more

	mu     sync.Mutex
	text   []byte
	screen screen
	look   func(rows []string) // at every change
}

// onTerminal starts a program on a terminal of that many columns.
func onTerminal(t *testing.T, columns uint16, env []string, look func(rows []string), args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var fault error
	err = raw.Control(func(fd uintptr) {
		var unlocked int
		number, fault = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		fault = errors.Join(fault, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, unlocked),
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	})
	if err := errors.Join(err, fault); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	term := &terminal{
		t: t, master: master, ended: make(chan struct{}), closed: make(chan struct{}),
		screen: screen{width: int(columns)}, look: look, cmd: exec.Command(program("smg"), args...),
	}
	var plain []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SMG_") && !strings.HasPrefix(v, "NO_COLOR=") && !strings.HasPrefix(v, "TERM=") {
			plain = append(plain, v)
		}
	}
	term.cmd.Env = append(append(plain, "GORACE=atexit_sleep_ms=0"), env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.closed)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.take(buf[:n])
			if err != nil {
				return // closed, or nobody has it open any more
			}
		}
	}()
	go func() {
		defer close(term.ended)
		term.code = exitCode(term.cmd.Wait())
	}()
	t.Cleanup(func() {
		select {
		case <-term.ended:
		default:
			_ = term.cmd.Process.Kill() // gone is what is wanted
			<-term.ended
		}
		master.Close()
		<-term.closed
		if t.Failed() {
			t.Logf("the terminal got %q and shows:\n%s", term.text, strings.Join(term.screen.rows(), "\n"))
		}
	})
	return term
}

func (term *terminal) take(b []byte) {
	term.mu.Lock()
	defer term.mu.Unlock()
	term.text = append(term.text, b...)
	term.screen.write(b)
	if term.look != nil {
		term.look(term.screen.rows())
	}
}

// shows waits until a row matches.
func (term *terminal) shows(pattern string) []string {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		term.mu.Lock()
		rows := term.screen.rows()
		term.mu.Unlock()
		for _, row := range rows {
			if m := re.FindStringSubmatch(row); m != nil {
				return m
			}
		}
	}
	term.t.Fatalf("it never shows %q", pattern)
	return nil
}

// stop ends the program as Ctrl-C does and returns all that was written.
func (term *terminal) stop() string {
	term.t.Helper()
	if _, err := term.master.WriteString("\x03"); err != nil {
		term.t.Fatal(err)
	}
	term.ends(130)
	<-term.closed
	return string(term.text)
}

func (term *terminal) ends(want int) {
	term.t.Helper()
	select {
	case <-term.ended:
		if term.code != want {
			term.t.Errorf("exit code %d, want %d", term.code, want)
		}
	case <-time.After(patience):
		term.t.Fatal("it does not end")
	}
}

// screen is what a terminal makes of characters and of the sequences that smg uses.
// What has left the window at the top is kept.
type screen struct {
	width    int
	lines    [][]rune
	row, col int
	rest     []byte // of a character or sequence that is not whole yet
}

var sequence = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

func (s *screen) write(b []byte) {
	b = append(s.rest, b...)
	s.rest = nil
	for len(b) > 0 {
		if b[0] == '\x1b' {
			m := sequence.FindSubmatch(b)
			if m == nil {
				s.rest = append([]byte(nil), b...)
				return
			}
			s.control(string(m[1]), m[2][0])
			b = b[len(m[0]):]
			continue
		}
		if !utf8.FullRune(b) {
			s.rest = append([]byte(nil), b...)
			return
		}
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		switch r {
		case '\r':
			s.col = 0
		case '\n':
			s.row++
		default:
			if s.col == s.width {
				s.row, s.col = s.row+1, 0
			}
			line := s.line()
			for len(*line) <= s.col {
				*line = append(*line, ' ')
			}
			(*line)[s.col] = r
			s.col++
		}
	}
}

// line is the one under the cursor.
func (s *screen) line() *[]rune {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	return &s.lines[s.row]
}

func (s *screen) control(number string, letter byte) {
	n := 1
	if number != "" {
		_, _ = fmt.Sscan(number, &n) // digits, as matched
	}
	line := s.line()
	switch letter {
	case 'A':
		s.row = max(0, s.row-n)
	case 'K', 'J':
		*line = (*line)[:min(len(*line), s.col)]
		if letter == 'J' {
			s.lines = s.lines[:s.row+1]
		}
	}
}

func (s *screen) rows() []string {
	out := make([]string, len(s.lines))
	for i, line := range s.lines {
		out[i] = strings.TrimRight(string(line), " ")
	}
	return out
}

// chatty are engines that say long things while they load, the second for longer.
func chatty(t *testing.T) string {
	return script(t,
		`n=0; while [ $n -lt $((12 + 12 * SMG_WORKER_RANK)) ]; do`,
		`echo "line-$SMG_WORKER_RANK-$n: the quick brown fox jumps over the lazy dog"; n=$((n + 1)); sleep 0.1; done`,
		"exec "+program("smg-sim")+` "$@"`)
}

// narrowTerminal looks at the screen at every moment: each engine has one row while it
// loads and none later, and nothing that engines said is lost.
func narrowTerminal(t *testing.T) {
	const columns = 40
	loading := regexp.MustCompile(`^engine (\d)  loading`)
	most := 0
	term := onTerminal(t, columns, []string{"TERM=xterm"}, func(rows []string) {
		n := map[string]int{}
		for _, row := range rows {
			if m := loading.FindStringSubmatch(row); m != nil {
				n[m[1]]++
				if len([]rune(row)) >= columns {
					t.Errorf("a status line reaches the last column: %q", row)
				}
			}
		}
		for engine, count := range n {
			if count > 1 {
				t.Errorf("engine %s is shown %d times as loading", engine, count)
			}
		}
		most = max(most, len(n))
	}, serveArgs(t, 2, "--engine-bin", chatty(t), "--router-shutdown-grace-period-secs", "0", "--", "--time-scale", "0")...)
	term.shows("^try: ")
	text := term.stop()
	if most != 2 {
		t.Errorf("%d engines were shown as loading at a time, want 2", most)
	}
	if !strings.Contains(text, "\x1b[") {
		t.Error("no control sequences on a terminal")
	}
	whole := strings.Join(term.screen.rows(), "")
	for rank, n := range []int{12, 24} {
		if got := strings.Count(whole, fmt.Sprintf("engine %d  ready after", rank)); got != 1 {
			t.Errorf("engine %d is ready %d times", rank, got)
		}
		for i := range n {
			line := fmt.Sprintf("[engine %d] line-%d-%d: the quick brown fox jumps over the lazy dog", rank, rank, i)
			if got := strings.Count(term.screen.unwrapped(), line); got != 1 {
				t.Errorf("%q is there %d times", line, got)
			}
		}
	}
	if strings.Contains(whole, "loading…") {
		t.Error("an engine is still shown as loading")
	}
}

// unwrapped joins rows that are full with those that follow.
func (s *screen) unwrapped() string {
	var out strings.Builder
	for _, line := range s.lines {
		out.WriteString(string(line))
		if len(line) < s.width {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func noColorTerminal(t *testing.T) { plainTerminal(t, "TERM=xterm", "NO_COLOR=1") }

func dumbTerminal(t *testing.T) { plainTerminal(t, "TERM=dumb") }

// plainTerminal wants no control sequence, whatever the terminal could do.
func plainTerminal(t *testing.T, env ...string) {
	term := onTerminal(t, 80, env, nil, serveArgs(t, 1, "--engine-bin", script(t, "sleep 1.5", "exec "+program("smg-sim")+` "$@"`),
		"--router-shutdown-grace-period-secs", "0", "--", "--time-scale", "0")...)
	term.shows("^try: ")
	if text := term.stop(); strings.Contains(text, "\x1b") {
		t.Errorf("control sequences: %q", text)
	}
}

// terminalClosed closes the window in which smg runs.
func terminalClosed(t *testing.T) {
	entry := mark(t)
	term := onTerminal(t, 80, []string{"TERM=xterm", entry}, nil, serveArgs(t, 2, "--router-shutdown-grace-period-secs", "0", "--", "--time-scale", "0")...)
	term.shows("^try: ")
	if n := len(marked(t, entry)); n != 4 {
		t.Errorf("%d processes, want smg, its watchdog and two engines", n)
	}
	term.master.Close()
	term.ends(129)
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("left when smg has ended: %v", left)
	}
}
