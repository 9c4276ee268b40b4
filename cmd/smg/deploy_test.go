package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smg/cmd/internal/flags"
	"smg/e2e/manifest"
	"smg/worker"
)

// deployed is the folder of the examples.
const deployed = "../../deploy"

// understood parses and judges a command line of an example, as the program does.
func understood(t *testing.T, command string, args []string, env map[string]string) *flags.Command {
	t.Helper()
	cmd, err := flags.Parse(flags.Input{Command: command, Args: args, Env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
	if err == nil {
		err = cmd.Validate(worker.CanonicalURL)
	}
	if err != nil {
		t.Fatalf("%s %v: %v", command, args, err)
	}
	return cmd
}

// manifests are the documents of all files below a folder, by file and number.
func manifests(t *testing.T, folder string) map[string]manifest.Node {
	t.Helper()
	all := map[string]manifest.Node{}
	err := filepath.WalkDir(filepath.Join(deployed, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		documents, err := manifest.Read(path)
		for i, doc := range documents {
			all[fmt.Sprintf("%s %d", strings.TrimPrefix(path, deployed+"/kubernetes/"), i)] = doc
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ports are those of a container, by name.
func ports(container manifest.Node) map[string]int {
	all := map[string]int{}
	for _, p := range manifest.List(container, "ports") {
		all[manifest.Text(p, "name")] = manifest.Number(p, "containerPort")
	}
	return all
}

// TestManifestsAreUnderstood holds the flags, variables, ports and probes of the
// manifests to what the programs have.
func TestManifestsAreUnderstood(t *testing.T) {
	conf, err := os.ReadFile(filepath.Join(deployed, "nats", "smg.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		folder string
		legs   []string
	}{
		{"regular", []string{"regular"}},
		{"disaggregated", []string{"decode", "encode", "prefill"}},
	} {
		t.Run(tt.folder, func(t *testing.T) {
			var legs []string
			ingresses := 0
			for name, doc := range manifests(t, "kubernetes/"+tt.folder) {
				for _, c := range manifest.Containers(doc) {
					env := map[string]string{}
					for _, v := range manifest.List(c, "env") {
						env[manifest.Text(v, "name")] = manifest.Text(v, "value")
					}
					cmd := understood(t, "", manifest.Texts(c, "args"), env)
					user := regexp.MustCompile(`^nats://([a-z-]+):\$\(NATS_PASSWORD\)@smg-nats:4222$`).FindStringSubmatch(env["SMG_NATS_URL"])
					if user == nil || !strings.Contains(string(conf), `user: "`+user[1]+`"`) {
						t.Errorf("%s: SMG_NATS_URL %q names no user of deploy/nats", name, env["SMG_NATS_URL"])
					}
					want, pages := map[string]int{"metrics": cmd.Launch.PrometheusPort}, []string{"metrics /health", "metrics /readiness"}
					if cmd.Verb == flags.RunIngress {
						ingresses++
						want["http"], pages = cmd.Launch.Port, []string{"http /readiness", "http /liveness"}
						if got, least := manifest.Number(doc, "spec", "template", "spec", "terminationGracePeriodSeconds"), cmd.Launch.ShutdownGracePeriod.Seconds(); float64(got) <= least {
							t.Errorf("%s: a pod is killed after %d s, and drains for %v", name, got, least)
						}
						if (cmd.Launch.Mode == flags.EPD) != (tt.folder == "disaggregated") {
							t.Errorf("%s: mode %v", name, cmd.Launch.Mode)
						}
					} else {
						legs = append(legs, cmd.Launch.Leg.String())
					}
					if diff := cmp.Diff(want, ports(c)); diff != "" {
						t.Errorf("%s: ports (-want +got):\n%s", name, diff)
					}
					for _, p := range manifest.Probes(c) {
						if !slices.Contains(pages, p.Port+" "+p.Path) {
							t.Errorf("%s: %s asks %s %s, which is none of %v", name, p.Kind, p.Port, p.Path, pages)
						}
					}
					if len(manifest.Probes(c)) != 2 {
						t.Errorf("%s: its probes are %v", name, manifest.Probes(c))
					}
				}
			}
			slices.Sort(legs)
			if diff := cmp.Diff(tt.legs, legs); diff != "" || ingresses != 1 {
				t.Errorf("%d ingresses; selectors (-want +got):\n%s", ingresses, diff)
			}
		})
	}
}

// TestManifestsFitTogether holds labels and ports of the manifests to each other.
func TestManifestsFitTogether(t *testing.T) {
	pods := map[string]map[string]int{} // by label: ports
	all := manifests(t, "kubernetes")
	for name, doc := range all {
		containers := manifest.Containers(doc)
		if containers == nil {
			continue
		}
		label := manifest.Text(doc, "spec", "template", "metadata", "labels", "app")
		pods[label] = ports(containers[0])
		if label == "" || label != manifest.Text(doc, "spec", "selector", "matchLabels", "app") || label != manifest.Text(doc, "metadata", "name") {
			t.Errorf("%s: its labels differ", name)
		}
	}
	services := 0
	for name, doc := range all {
		switch kind := manifest.Text(doc, "kind"); kind {
		case "Deployment", "StatefulSet":
		case "Service":
			services++
			for _, p := range manifest.List(doc, "spec", "ports") {
				if pods[manifest.Text(doc, "spec", "selector", "app")][manifest.Text(p, "targetPort")] == 0 {
					t.Errorf("%s: nobody has the port %q", name, manifest.Text(p, "targetPort"))
				}
			}
		default:
			t.Errorf("%s: a %q is not checked here", name, kind)
		}
	}
	if services != 5 {
		t.Errorf("%d services, want 5", services)
	}
}

// TestUnitsAreUnderstood holds the command lines of the systemd units, and the
// variables that their comments name, to what the programs have.
func TestUnitsAreUnderstood(t *testing.T) {
	nats := map[string]string{"SMG_NATS_URL": "nats://u:p@n1:4222"}
	for _, tt := range []struct {
		file, command string
		env           map[string]string
		legs          []string
	}{
		{"smg.service", "", nil, []string{""}},
		{"smg-ingress.service", "ingress", nats, []string{""}},
		{"smg-selector@.service", "selector", nats, []string{"regular", "encode", "prefill", "decode"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(deployed, "systemd", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/(\S+) (.*)$`).FindStringSubmatch(string(b))
			if start == nil {
				t.Fatal("no ExecStart")
			}
			if _, err := os.Stat(filepath.Join("..", start[1])); err != nil {
				t.Error(err)
			}
			var grace int
			stop := regexp.MustCompile(`(?m)^TimeoutStopSec=\d+$`).FindString(string(b))
			if _, err := fmt.Sscanf(stop, "TimeoutStopSec=%d", &grace); err != nil {
				t.Fatal(err)
			}
			for _, leg := range tt.legs {
				env := map[string]string{"SMG_FLAG_PROMETHEUS_PORT": "29001"}
				maps.Copy(env, tt.env)
				cmd := understood(t, tt.command, strings.Fields(strings.ReplaceAll(start[2], "%i", leg)), env)
				if cmd.Verb != flags.RunSelector && float64(grace) <= cmd.Launch.ShutdownGracePeriod.Seconds() {
					t.Errorf("it is killed after %d s, and drains for %v", grace, cmd.Launch.ShutdownGracePeriod)
				}
				if cmd.Launch.PrometheusPort != 29001 {
					t.Error("SMG_FLAG_PROMETHEUS_PORT is not taken")
				}
			}
			for _, name := range regexp.MustCompile(`SMG_FLAG_[A-Z_]+`).FindAllString(string(b), -1) {
				if !slices.ContainsFunc(flags.Table(), func(d flags.Def) bool { return d.FlagEnv() == name }) {
					t.Errorf("%s belongs to no flag", name)
				}
			}
		})
	}
}

// TestContainerFile holds the container file to the programs that there are, the
// Makefile's way to build them and the ports that they have.
func TestContainerFile(t *testing.T) {
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	file := read(filepath.Join(deployed, "container", "Containerfile"))
	for _, program := range regexp.MustCompile(`\./cmd/[a-z-]+`).FindAllString(file, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", program, "main.go")); err != nil {
			t.Error(err)
		}
	}
	for _, part := range []string{"CGO_ENABLED=0", "-trimpath", "-X smg/cmd/internal/version.Version=", "cmd/internal/version/VERSION"} {
		if !strings.Contains(file, part) || !strings.Contains(read("../../Makefile"), part) {
			t.Errorf("%q is not in both the container file and the Makefile", part)
		}
	}
	major := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read("../../go.mod"))[1]
	l := flags.DefaultLaunch()
	for _, want := range []string{"golang:" + major + " ", fmt.Sprintf("EXPOSE %d %d\n", l.Port, l.PrometheusPort)} {
		if !strings.Contains(file, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}
