package flags

import (
	"errors"
	"slices"
	"strings"
)

// Names of the commands.
const (
	nameLaunch     = "launch"
	nameCheck      = "check"
	nameServe      = "serve"
	nameIngress    = "ingress"
	nameSelector   = "selector"
	nameSim        = "sim"
	nameReplay     = "replay"
	nameWorkers    = "workers"
	nameStatus     = "status"
	nameHelp       = "help"
	nameCompletion = "completion"
	nameMan        = "man"
)

// configured says whether the command has flags of ours and a configuration.
func configured(command string) bool {
	return slices.Contains([]string{nameLaunch, nameCheck, nameServe, nameIngress, nameSelector, nameReplay}, command)
}

// scopeOf is where the flags of a command are defined that carry no prefix.
func scopeOf(command string) Scope {
	switch command {
	case nameServe:
		return InServe
	case nameIngress:
		return InIngress
	case nameSelector:
		return InSelector
	case nameReplay:
		return InReplay
	}
	return InLaunch
}

func isCommand(word string) bool { return slices.Contains(commandNames(), word) }

// Verb is what smg is to do.
type Verb uint8

// What smg can be asked for.
const (
	// Print writes Output to standard output and ends with 0.
	Print Verb = iota
	// RunLaunch runs a gateway as Launch says.
	RunLaunch
	// RunCheck tells what RunLaunch would do, as Launch says.
	RunCheck
	// RunServe runs engines and a gateway as Serve says.
	RunServe
	// RunIngress runs the ingress alone, as Launch says.
	RunIngress
	// RunSelector runs the selector of one leg alone, as Launch says.
	RunSelector
	// RunSim runs the simulated engine with SimArgs.
	RunSim
	// RunReplay runs recordings again, as Replay says and with the policies of Launch.
	RunReplay
	// RunWorkers and RunStatus ask a gateway that runs, as AdminArgs say.
	RunWorkers
	RunStatus
	// PrintCompletion writes the completion for Shell to standard output.
	PrintCompletion
)

// Input is what a command line means depends on.
type Input struct {
	// Args are the arguments without the program's name.
	Args []string
	// Command is the one that a program has which has no others; then Args are its
	// flags.
	Command string
	// Env looks up a variable, as os.LookupEnv does.
	Env func(name string) (string, bool)
	// Variables are the names of all variables that are set.
	Variables []string
	// Version is printed for --version, VersionVerbose for --version-verbose.
	Version        string
	VersionVerbose string
	// Child says that a parent of ours has written and judged the line.
	Child bool
	// Width is the terminal's, for help; 0 leaves lines as long as they are.
	Width int
}

// Command is a command line that was understood. Which fields are set depends on
// Verb.
type Command struct {
	Verb    Verb
	Output  string   // Print
	Launch  *Launch  // the others, RunServe: the gateway's part of Serve
	Serve   *Serve   // RunServe
	SimArgs []string // RunSim
	Shell   string   // PrintCompletion
	Replay  *Replay  // RunReplay
	// AdminArgs are what stands behind the command, of RunWorkers and RunStatus.
	AdminArgs []string
	// Notices are start-up lines about what the user did not type; Warnings are about
	// what looks like a mistake.
	Notices  []string
	Warnings []string

	given rewritten // what children are given too
	child bool
}

// Validate reports every fault of the configuration, one error each, as exit code 1.
// rule judges worker URLs.
func (c *Command) Validate(rule URLRule) error {
	check := &checker{given: c.given.flags, prefix: c.Prefix()}
	switch c.Verb {
	case RunLaunch, RunCheck, RunIngress:
		c.Launch.check(check, rule, c.Launch.headcount())
	case RunSelector:
		c.Launch.checkSelector(check, c.child)
	case RunServe:
		c.Serve.checkServe(check, rule)
	case RunReplay:
		c.Replay.check(check, c.Launch)
	}
	if check.faults != nil {
		check.faults.ErrorFormat = inOneLine
	}
	return check.faults.ErrorOrNil()
}

// Prefix is what the flags of the gateway carry behind their dashes.
func (c *Command) Prefix() string {
	if c.Verb == RunServe {
		return routerPrefix
	}
	return ""
}

// Sourced has the faults of err that name a flag of c name its variable instead, where one
// has set it. It returns err.
func (c *Command) Sourced(err error) error {
	check := &checker{given: c.given.flags}
	for _, e := range leaves(err) {
		if f, ok := errors.AsType[*Fault](e); ok && strings.HasPrefix(f.Where, "--") {
			flag, value, _ := strings.Cut(f.Where, " ")
			f.Where = check.as(flag, value)
		}
	}
	return err
}

// Parse understands a command line. Its error is a *Fault with ExitUsage. What
// values mean together is left to [Command.Validate].
func Parse(in Input) (*Command, error) {
	if in.Command != "" {
		in.Args = append([]string{in.Command}, in.Args...)
	}
	if len(in.Args) == 0 {
		return in.help("", "")
	}
	first := in.Args[0]
	command, rest, bare := nameLaunch, in.Args, strings.HasPrefix(first, "-")
	if !bare {
		command, rest = first, in.Args[1:]
	}
	asked := words(command, in.Args)
	if out, ok := in.version(asked); ok {
		return &Command{Verb: Print, Output: out + "\n"}, nil
	}
	switch command {
	case "start":
		command = nameLaunch
	case nameLaunch, nameCheck, nameServe, nameIngress, nameSelector, nameReplay:
	case nameSim:
		return &Command{Verb: RunSim, SimArgs: slices.Clone(rest)}, nil
	case nameWorkers:
		return &Command{Verb: RunWorkers, AdminArgs: slices.Clone(rest)}, nil
	case nameStatus:
		return &Command{Verb: RunStatus, AdminArgs: slices.Clone(rest)}, nil
	case nameHelp:
		return in.helpCommand(rest)
	case nameCompletion:
		return completionCommand(rest)
	case nameMan:
		return manCommand(rest)
	default:
		near := suggest(first, commandNames())
		return nil, usage(first, didYouMean(near, "", "smg --help lists the commands"), "unknown command")
	}
	if topic, ok := helpAsked(asked); ok {
		if bare && topic == "" {
			command = ""
		}
		return in.help(command, topic)
	}
	return in.parse(command, rest, bare)
}

// words are the arguments up to a bare "--", without the values of serve's flags that
// may begin with a dash: what stands in those is an engine's.
func words(command string, args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	if command != nameServe {
		return args
	}
	s, out := newSet(command, serveTable()), []string(nil)
	for i := 0; i < len(args); i++ {
		out = append(out, args[i])
		if e := s.lookup(strings.TrimPrefix(args[i], "--")); e != nil && e.Dashed && strings.HasPrefix(args[i], "--") {
			i++
		}
	}
	return out
}

// version finds a question for the version among words.
func (in *Input) version(words []string) (string, bool) {
	for _, a := range words {
		switch strings.ReplaceAll(a, "_", "-") {
		case "--version", "-V":
			return in.Version, true
		case "--version-verbose":
			return in.VersionVerbose, true
		}
	}
	return "", false
}

// helpAsked finds a question for help among words.
func helpAsked(words []string) (topic string, ok bool) {
	for _, a := range words {
		if a == "-h" || a == "--help" {
			return "", true
		}
		if t, found := strings.CutPrefix(a, "--help="); found {
			return t, true
		}
	}
	return "", false
}

// helpCommand is "smg help [command]".
func (in *Input) helpCommand(rest []string) (*Command, error) {
	switch {
	case len(rest) == 0 || strings.HasPrefix(rest[0], "-") || rest[0] == nameHelp:
		return in.help("", "")
	case len(rest) > 1:
		return nil, usage(rest[1], "write smg help "+rest[0], "unexpected argument")
	case rest[0] == nameSim:
		return &Command{Verb: RunSim, SimArgs: []string{"--help"}}, nil
	case rest[0] == nameWorkers:
		return &Command{Verb: RunWorkers, AdminArgs: []string{"--help"}}, nil
	case rest[0] == nameStatus:
		return &Command{Verb: RunStatus, AdminArgs: []string{"--help"}}, nil
	case rest[0] == "start":
		return in.help(nameLaunch, "")
	case rest[0] == nameCompletion:
		return completionCommand([]string{"--help"})
	case rest[0] == nameMan:
		return manCommand([]string{"--help"})
	case configured(rest[0]):
		return in.help(rest[0], "")
	}
	near := suggest(rest[0], commandNames())
	return nil, usage(rest[0], didYouMean(near, "smg help ", "smg --help lists the commands"), "unknown command")
}

// parse fills the configuration of a command.
func (in *Input) parse(command string, args []string, bare bool) (*Command, error) {
	s := newSet(command, Table())
	s.bare = bare
	line, err := rewrite(s, args)
	if err != nil {
		return nil, err
	}
	if err := environment(s, &line, in.Env); err != nil {
		return nil, err
	}
	var unused []string
	if !in.Child {
		unused = unusedNotices(s, &line)
	}
	if command == nameServe {
		fallback(s, &line)
	}
	config, err := in.fill(s, &line)
	if err != nil {
		return nil, err
	}
	typed := map[string]string{}
	for _, g := range line.flags {
		typed[g.name] = g.where
	}
	c := &Command{Verb: verbOf(command, &config.Launch), Launch: &config.Launch, Warnings: line.warnings, given: line, child: in.Child}
	_, config.PolicySet = typed[s.prefixed("policy")]
	_, config.Requests.MaxBufferedSet = typed[s.prefixed("max-buffered-request-bytes")]
	config.settle()
	switch command {
	case nameReplay:
		if c.Replay, err = config.replay(line.files); err != nil {
			return nil, err
		}
		return c, nil
	case nameIngress, nameSelector:
		if err := config.needed(command, typed); err != nil {
			return nil, err
		}
	case nameServe:
		config.Engines.EngineArgs = line.engineArgs
		c.Serve = config
		if err := config.checkEngineLog(typed); err != nil {
			return nil, err
		}
		if c.Notices, err = config.finish(typed); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(line.flags, func(g given) bool { return g.name == s.prefixed(nameAPIKey) && g.where == "--"+nameAPIKey }) {
			c.Notices = append(c.Notices, "clients must send the engines' --api-key (--router-api-key for another, --router-disable-arg-fallback for none)")
		}
	}
	prefix, workers := s.prefixed(""), config.Launch.headcount()
	if c.Serve != nil {
		workers = config.headcount()
	}
	notices, warnings := config.legRemarks(prefix)
	c.Notices, c.Warnings = slices.Concat(c.Notices, notices, unused), append(c.Warnings, warnings...)
	if !in.Child {
		c.Warnings = slices.Concat(c.Warnings, unknownVariables(in.Variables), s.unreadVariables(in.Variables, &line))
	}
	if command != nameIngress {
		c.Warnings = append(c.Warnings, config.policyWarnings(prefix, workers)...)
	}
	return c, nil
}

func verbOf(command string, l *Launch) Verb {
	switch command {
	case nameCheck:
		return RunCheck
	case nameServe:
		return RunServe
	case nameIngress:
		return RunIngress
	case nameSelector:
		return RunSelector
	case nameReplay:
		return RunReplay
	}
	if l.DryRun {
		return RunCheck
	}
	return RunLaunch
}

// prefixed is the name of a gateway flag in the command of s.
func (s *set) prefixed(name string) string {
	if s.command == nameServe {
		return routerPrefix + name
	}
	return name
}
