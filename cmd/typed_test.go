package cmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
)

// TestImageWithDash checks that the arguments after an image go to the container.
func TestImageWithDash(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"web.yaml", "job.json"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"run busybox ls -l":                  "run busybox -- ls -l",
		"run -it --rm -v /a:/b busybox:1 sh": "run -it --rm -v /a:/b busybox:1 -- sh",
		"run -p 80:80 nginx --name web":      "run -p 80:80 nginx -- --name web",
		"-v run nginx":                       "--verbose run nginx --",
		"run nginx -- echo":                  "run nginx -- echo",
		"run web --image=nginx -- echo":      "run web --image=nginx -- echo",
		"run --image nginx web -i":           "run --image nginx web -i",
		"run web.yaml -q":                    "run web.yaml -q",
		"run -f web.yaml -q":                 "run -f web.yaml -q",
		"run none.yaml -q":                   "run none.yaml -q",
		"run web -q":                         "run web -q", // web.yaml exists
		"run wbe -q":                         "run wbe -q", // swapped
		"run frob -q":                        "run frob -- -q",
		"run web.ymal -q":                    "run web.ymal -q", // of web.yaml
		"run job:latest -q":                  "run job:latest -- -q",
		"run Pod -q":                         "run Pod -q", // not the name of an image
		"run -h web nginx":                   "run --hostname web nginx --",
		"run --rm -h web nginx -h":           "run --rm --hostname web nginx -- -h",
		"run -h web web.yaml":                "run --hostname web web.yaml",
		"run -h":                             "run -h",
		"run nginx -h":                       "run nginx -- -h",
		"run -h nginx":                       "run -h nginx --",
		"run --gpus all nginx":               "run --gpus all nginx",
		"run":                                "run",
	} {
		args := strings.Fields(line)
		root := newRoot(cli.New(cli.Streams{}))
		if got := strings.Join(grammar.ImageWithDash(root, args, slices.Index(args, "run")), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestCommandGroups checks that the help and README.md list every command, in the same groups.
func TestCommandGroups(t *testing.T) {
	root := newRoot(cli.New(cli.Streams{}))
	var grouped []string
	readme := readPage(t, "../README.md")
	for _, g := range commandGroups {
		grouped = append(grouped, g.commands...)
		if !strings.Contains(readme, "\n| "+g.title+" |") {
			t.Errorf("README.md has no group %q", g.title)
			continue
		}
		_, row, _ := strings.Cut(readme, "\n| "+g.title+" |")
		row, _, _ = strings.Cut(row, "\n")
		for _, name := range g.commands {
			if name != "help" && name != "options" && !strings.Contains(row, "`"+name) {
				t.Errorf("README.md does not have %s in the group %q", name, g.title)
			}
		}
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && !slices.Contains(grouped, c.Name()) {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}

// TestQuietEverywhere checks that every command accepts -q. If a command also prints messages,
// such as progress, its help must describe the flag.
func TestQuietEverywhere(t *testing.T) {
	var each func(*cobra.Command)
	each = func(of *cobra.Command) {
		for _, c := range of.Commands() {
			f := c.Flags().Lookup("quiet")
			if c.Runnable() && (f == nil || f.Shorthand != "q" || f.Value.Type() != "bool" && f.Value.Type() != "ignored") {
				t.Errorf("%s has no -q", c.CommandPath())
			}
			each(c)
		}
	}
	root := newRoot(cli.New(cli.Streams{}))
	each(root)
	for _, name := range []string{"apply", "run", "serve", "wait", "restart", "stop", "start", "delete", "gc", "diff", "doctor", "port-forward", "exec", "attach", "debug"} {
		if f := grammar.Named(root, name).Flags().Lookup("quiet"); f == nil || f.Hidden || f.Usage == "" {
			t.Errorf("the help of %s does not describe -q", name)
		}
	}
}

// TestIgnoredFlags checks that podrun rejects a value of an ignored flag that requests
// something else.
func TestIgnoredFlags(t *testing.T) {
	for line, ok := range map[string]bool{
		"delete web --wait": true, "delete web --wait=true": true, "delete web --wait=false": false,
		"apply -f x --cascade=orphan": false, "apply -f x --cascade background": true, "get -a": true, "get --chunk-size 5": true,
	} {
		root := newRoot(cli.New(cli.Streams{}))
		c, rest, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ParseFlags(rest); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestArgsError(t *testing.T) {
	for line, want := range map[string]string{
		"cp web:/a":         "wrong number of arguments: 1; use 'podrun cp SRC DST', for example 'podrun cp web:/var/log/app ./logs'",
		"image pull":        "arguments are missing; use 'podrun image pull IMAGE...'",
		"gc web":            "wrong number of arguments: 1; use 'podrun gc', for example 'podrun gc --dry-run'",
		"image frobnicate":  `"frobnicate" is not a command of podrun image; see 'podrun image --help'`,
		"create deployment": "arguments are missing; use 'podrun create deployment NAME --image=IMAGE [-- COMMAND...]', for example 'podrun create deployment web --image=nginx:1.27 --port=80'",
	} {
		root := newRoot(cli.New(cli.Streams{}))
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if got := fmt.Sprint(err, "; ", exit.HintFor(err)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
