package cmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/identity"
)

func TestFillHint(t *testing.T) {
	for _, tc := range []struct{ hint, rest, want string }{
		{"podrun stop NAME", "-n shop deploy/web", "podrun stop web"},
		{"podrun stop NAME", "deployment web.service", "podrun stop web"},
		{"podrun stop NAME", "", "podrun stop NAME"},
		{"podrun apply FILE", "-f web.yaml", "podrun apply web.yaml"},
		{"create ARGS --dry-run", "a --image=b -o yaml --dry-run=client", "create a --image=b --dry-run"},
		{"create ARGS --dry-run", "", "create … --dry-run"},
		{"tag SOURCE TARGET", "a b", "tag a b"},
		{"docker save TAG", "-t foo .", "docker save foo"},
		{"docker save TAG", ".", "docker save TAG"},
		{"exec NAME -- env A=b COMMAND", "web ls /", "exec web -- env A=b ls /"},
		{"export FILE.tar IMAGE", "nginx", "export FILE.tar nginx"},
		{"tag SOURCE_REF TARGET_REF", "a b:2", "tag docker.io/library/a:latest docker.io/library/b:2"},
		{"tag SOURCE_REF TARGET_REF", "", "tag SOURCE TARGET"},
		{grammar.UseImport, "x.tar", "for an archive of docker save: 'podrun image load x.tar'; for a root file system: 'docker import x.tar NAME && docker save NAME | podrun image load -'"},
		{"import ARCHIVE IMPORT_NAME", "./x.tar a:1", "import ./x.tar a:1"},
		{"apply -k KUSTOMIZATION", ".", "apply -k ."},
		{"apply -k KUSTOMIZATION", "build overlays/prod", "apply -k overlays/prod"},
		{"apply -k KUSTOMIZATION", "", "apply -k DIR"},
		{"sudo HOST_COMMAND", "--rootless-netns ls -o x", "sudo ls -o x"},
		{"sudo HOST_COMMAND", "", "sudo COMMAND"},
		{"'docker login REST' or", "ghcr.io -u me -p secret", "'docker login ghcr.io -u me' or"},
		{"'docker login REST' or", "", "'docker login' or"},
	} {
		if got := grammar.FillHint(tc.hint, strings.Fields(tc.rest)); got != tc.want {
			t.Errorf("%q with %q: %q, want %q", tc.hint, tc.rest, got, tc.want)
		}
	}
}

func TestWithoutFlag(t *testing.T) {
	for _, tc := range []struct {
		args, name string
		value      bool
		rest, want string
	}{
		{"get web --context prod", "context", true, "get web", "prod"},
		{"get --context=prod web", "context", true, "get web", "prod"},
		{"get --record web", "record", false, "get web", ""},
		{"logs -n5 web", "n", true, "logs web", "5"},
		{"rm -af web", "a", false, "rm -f web", ""},
		{"exec web -- ls -a", "a", false, "exec web -- ls -a", ""},
		{"get --raw -o json", "raw", true, "get -o json", ""},
	} {
		rest, value := grammar.WithoutFlag(strings.Fields(tc.args), tc.name, tc.value)
		if strings.Join(rest, " ") != tc.rest || value != tc.want {
			t.Errorf("%q without %s: %q and %q", tc.args, tc.name, rest, value)
		}
	}
}

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
		root := newRoot(newApp(Streams{}))
		if got := strings.Join(grammar.ImageWithDash(root, args, slices.Index(args, "run")), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestFlagOfCommand checks that podrun warns about a flag after the image only if it is probably a flag
// for podrun.
func TestFlagOfCommand(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "",
		"sh -e A=B":                  "",
		"-e A=B":                     "-e A=B",
		"--env=A=B sh":               "--env=A=B",
		"-e 's/a=b/c/'":              "",
		"-v /src:/src make":          "-v /src:/src",
		"-v https://example.com":     "",
		"-v":                         "",
		"-p 8080:80":                 "-p 8080:80",
		"-p password":                "",
		"-it sh":                     "-it",
		"--rm":                       "--rm",
		"--name infra0 --data-dir d": "",
	} {
		got := ""
		if list := flagOfCommand("busybox", strings.Fields(line)); len(list) > 0 {
			got = list[0].Object
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestLikelyPod(t *testing.T) {
	pods := []identity.Pod{{Namespace: "default", Name: "web"}, {Namespace: "default", Name: "shop-1"}, {Namespace: "default", Name: "shop-2"}, {Namespace: "other", Name: "db"}}
	for line, want := range map[string]string{
		"exec web -- true": "", // created while the command ran
		"logs webb":        "did you mean web? 'podrun logs web'",
		"logs pod/wbe":     "did you mean web? 'podrun logs pod/web'",
		"exec we -- we":    "", // too short
		"logs shop":        "", // the names of two pods begin with it
		"logs db -f":       "the pod is in another namespace: 'podrun logs db -f -n other'",
		"exec db -- true":  "the pod is in the namespace other: add -n other",
		"logs web-7f9c-ab": "did you mean web? 'podrun logs web'",
	} {
		words := strings.Fields(line)
		a := newApp(Streams{})
		a.line.Typed = words
		if got := a.likelyPod(words[1][strings.Index(words[1], "/")+1:], pods); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestLikelyDuration(t *testing.T) {
	for given, want := range map[string]string{"5": "5s", "1 hour ago": "1h", "2 days": "48h", "10min": "10m", "abc": "30s or 5m", "": "30s or 5m"} {
		if got := grammar.LikelyDuration(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// TestCommandGroups checks that the help and README.md list every command, in the same groups.
func TestCommandGroups(t *testing.T) {
	root := newRoot(newApp(Streams{}))
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
	root := newRoot(newApp(Streams{}))
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
		root := newRoot(newApp(Streams{}))
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
		root := newRoot(newApp(Streams{}))
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if got := fmt.Sprint(err, "; ", exit.HintFor(err)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
