package admin

import (
	"bytes"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/terminal"
)

// options is a command line that was understood.
type options struct {
	gateway string // without a slash at its end
	key     string
	timeout time.Duration
	json    bool
	model   string
	args    []string

	// workers add
	leg           string
	labels        map[string]string
	bootstrapHost string
	bootstrapPort int
	wait          time.Duration
}

// defaultGateway is where smg launch listens.
const defaultGateway = "http://127.0.0.1:30000"

// words are what a command is called, its usage line and how many arguments it
// takes.
type words struct {
	usage, text string
	least, most int
	missing     string
}

var commands = map[string]words{
	"status":       {"how a gateway and its services are", "smg status [flags]", 0, 0, ""},
	"workers":      {"the workers of a running gateway", "smg workers [list|add URL|rm ID] [flags]\nWithout a word behind it, the workers are listed.", 0, 0, ""},
	"workers list": {"list who is registered", "smg workers list [flags]", 0, 0, ""},
	"workers add":  {"register a worker", "smg workers add URL [flags]", 1, 1, "name the worker's address, such as http://w3:8000"},
	"workers rm":   {"take workers out; requests that they have go on", "smg workers rm ID|URL... [flags]", 1, math.MaxInt, "name a worker by its id or its URL; smg workers lists both"},
}

// Flags are those of a command: status, workers, or workers and the word behind it.
func Flags(name string) []cli.Flag {
	all := []cli.Flag{
		&cli.StringFlag{Name: "gateway", Aliases: []string{"url"}, Value: defaultGateway, Usage: "`URL` of the gateway's API"},
		&cli.StringFlag{Name: "api-key", DefaultText: "$SMG_API_KEY", Usage: "`KEY` to send as bearer token"},
		&cli.IntFlag{Name: "timeout-secs", Value: 15, Usage: "`SECS` that an answer may take"},
		&cli.BoolFlag{Name: "json", Usage: "print the gateway's JSON"},
	}
	switch name {
	case "workers", "workers list":
		all = append(all, &cli.StringFlag{Name: "model", Usage: "only those that serve this `MODEL`, by its id or an alias"})
	case "workers add":
		all = append(all,
			&cli.StringFlag{Name: "leg", Value: "regular", Usage: "`LEG` of the worker: regular, encode, prefill or decode"},
			&cli.StringFlag{Name: "model", DefaultText: "what the engine lists", Usage: "id of the `MODEL` that it serves"},
			&cli.StringSliceFlag{Name: "label", Usage: "`NAME=VALUE`; may be repeated"},
			&cli.IntFlag{Name: "bootstrap-port", DefaultText: "what the engine says", Usage: "`PORT` where a prefill worker hands KV over"},
			&cli.StringFlag{Name: "bootstrap-host", DefaultText: "the host of URL", Usage: "`HOST` of that port"},
			&cli.IntFlag{Name: "wait-secs", Usage: "`SECS` to wait until the worker is ready"},
		)
	}
	return all
}

const helpTemplate = `{{.Usage}}

Usage: {{.UsageText}}

{{range .VisibleFlags}}  {{.}}
{{end}}`

// read understands the arguments of a command. It is nil after help was printed.
func (p *program) read(name string, args []string) (o *options, err error) {
	w := commands[name]
	list := Flags(name)
	args, err = inFront(name, list, args)
	if err != nil {
		return nil, err
	}
	var help bytes.Buffer
	app := &cli.App{
		Name: "smg " + name, Usage: w.usage, UsageText: w.text, Flags: list, HideHelpCommand: true, HideVersion: true,
		Writer: &help, ErrWriter: io.Discard, CustomAppHelpTemplate: helpTemplate,
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler: func(*cli.Context, error) {}, // exit codes are main's
		Action: func(c *cli.Context) (err error) {
			o, err = p.options(name, c)
			return err
		},
	}
	if err = app.Run(append([]string{app.Name}, args...)); err != nil {
		return nil, asFault(name, err)
	}
	if o == nil {
		width := 0
		if f, ok := p.out.(*os.File); ok {
			width = terminal.Width(f)
		}
		_, err = io.WriteString(p.out, terminal.Wrap(help.String(), width))
	}
	return o, err
}

// inFront puts flags in front of what is none, which the flag package wants, and
// reads "_" in their names as "-".
func inFront(name string, list []cli.Flag, args []string) ([]string, error) {
	var front, rest []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			rest = append(rest, args[i])
			continue
		}
		typed, value, hasValue := strings.Cut(args[i], "=")
		flag := strings.ReplaceAll(typed, "_", "-")
		if flag == "-h" || flag == "--help" {
			front = append(front, "--help")
			continue
		}
		at := slices.IndexFunc(list, func(f cli.Flag) bool { return slices.Contains(f.Names(), strings.TrimPrefix(flag, "--")) })
		if at < 0 || !strings.HasPrefix(flag, "--") {
			return nil, wrong(typed, "smg "+name+" --help lists the flags", "unknown flag")
		}
		if _, ok := list[at].(*cli.BoolFlag); !ok && !hasValue {
			if i++; i == len(args) {
				return nil, wrong(typed, "write "+typed+" and its value", "a value is missing")
			}
			value, hasValue = args[i], true
		}
		if hasValue {
			flag += "=" + value
		}
		front = append(front, flag)
	}
	return slices.Concat(front, []string{"--"}, rest), nil
}

// options judges what was typed.
func (p *program) options(name string, c *cli.Context) (*options, error) {
	o := &options{
		key: c.String("api-key"), json: c.Bool("json"), model: c.String("model"), args: c.Args().Slice(),
		leg: c.String("leg"), bootstrapHost: c.String("bootstrap-host"), bootstrapPort: c.Int("bootstrap-port"), labels: map[string]string{},
	}
	if o.key == "" {
		o.key, _ = p.env("SMG_API_KEY")
	}
	w := commands[name]
	switch {
	case len(o.args) < w.least:
		return nil, wrong("smg "+name, w.missing, "an argument is missing")
	case len(o.args) > w.most && name == "workers":
		return nil, wrong(o.args[0], "use list, add or rm", "unknown command of smg workers")
	case len(o.args) > w.most:
		return nil, wrong(o.args[w.most], "smg "+name+" --help shows what there is", "unexpected argument")
	}
	var err error
	if o.gateway, err = addressOf(c.String("gateway")); err != nil {
		return nil, err
	}
	if o.timeout, err = seconds(c, "timeout-secs", 1); err != nil {
		return nil, err
	}
	if o.wait, err = seconds(c, "wait-secs", 0); err != nil {
		return nil, err
	}
	for _, l := range c.StringSlice("label") {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, wrong("--label "+l, "write --label zone=a", "not a name and a value")
		}
		o.labels[k] = v
	}
	if n := o.bootstrapPort; c.IsSet("bootstrap-port") && (n < 1 || n > math.MaxUint16) {
		return nil, wrong("--bootstrap-port "+strconv.Itoa(n), "give a port 1..65535", "not a port")
	}
	return o, nil
}

func seconds(c *cli.Context, name string, least int) (time.Duration, error) {
	const most = 24 * 60 * 60
	n := c.Int(name)
	if c.IsSet(name) && (n < least || n > most) {
		return 0, wrong("--"+name+" "+strconv.Itoa(n), "give "+strconv.Itoa(least)+" to "+strconv.Itoa(most)+" seconds", "not a time to wait")
	}
	return time.Duration(n) * time.Second, nil
}

// addressOf is the address of a gateway; host:port will do.
func addressOf(typed string) (string, error) {
	raw := typed
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// It may hold a password, and is not repeated.
		return "", wrong("--gateway", "write it like "+defaultGateway, "not the address of a gateway")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), nil
}

// wrong is a fault of the command line itself.
func wrong(where, hint, what string) error {
	return &flags.Fault{What: what, Where: where, Hint: hint, Code: flags.ExitUsage}
}

// asFault makes a fault of what the flag package says.
func asFault(name string, err error) error {
	if _, ok := err.(*flags.Fault); ok { //nolint:errorlint // it is handed through as it was made
		return err
	}
	return wrong("smg "+name, "smg "+name+" --help shows what there is", err.Error())
}
