package grammar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cmd/complete"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
)

func TestTranslate(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "",
		"get pods":                   "get pods",
		"-n shop ps":                 "-n shop get",
		"--namespace=shop -v ps web": "--namespace=shop -v get web",
		"play kube pod.yaml":         "apply pod.yaml",
		"kube down pod.yaml":         "delete -f pod.yaml",
		"rm -f web":                  "delete --force web",
		"create -f secret":           "create -f secret", // a file with that name
		"container run -d nginx:1 x": "run -d nginx:1 -- x",
		"run -d nginx:1 x":           "run -d nginx:1 -- x",
		"kill web":                   "stop --grace-period=0 web",
		"--context prod get":         "--context prod get", // the flag is the error
		"--help":                     "--help",
		"help get":                   "help get",
		"__complete ge":              "__complete ge",
		"-- get":                     "-- get",
		"exec web -- top":            "exec web -- top",
		"get top":                    "get top",
		"get events -w":              "events -w",
		"rm -af":                     "delete --all --force",
		"rmi -f nginx":               "image rm --force nginx",
		"kube play --replace a.yaml": "apply --force a.yaml",
		"replace --force -f a.yaml":  "apply --force -f a.yaml",
		"rollout restart deploy/web": "rollout restart deploy/web",
		"kube generate web":          "get -o yaml web",
		"exec web ls -l":             "exec web -- ls -l",
		"exec -it web sh -c x":       "exec -it web -- sh -c x",
		"exec web -c app ls":         "exec web -c app -- ls",
		"exec pod web ls":            "exec pod web -- ls",
		"exec pod/web ls":            "exec pod/web -- ls",
		"exec web":                   "exec web",
		"exec web -e A=b ls":         "exec web -e A=b ls", // the flag is the error
		"config":                     "config",
		"-n x get ev web":            "-n x events web",

		"-n top rename":   `error: podrun has no command "rename"`,
		"rollout pause w": `error: podrun has no command "rollout pause"`,
		"gte":             `error: "gte" is not a command of podrun (did you mean get?)`,
		"gt pods":         `error: "gt" is not a command of podrun (did you mean get?)`,
		"imgaes":          `error: "imgaes" is not a command of podrun (did you mean images?)`,
		"backup":          `error: podrun has no command "backup"`,
		"kubelet --help":  `error: podrun has no command "kubelet"`,
		"crictl ps -a":    `error: podrun has no command "crictl"`,
		"kube apply x":    `error: no file "x"`,
		"config view":     `error: podrun has no command "config"`,
		"service start":   `error: podrun has no command "service start"`,
		"create sa a":     `error: podrun has no command "create sa"`,
		"image build .":   `error: podrun has no command "image build"`,
		"frobnicate -f x": `error: "frobnicate" is not a command of podrun`,
		"stpo web":        `error: "stpo" is not a command of podrun (did you mean stop?)`,
	} {
		got, err := grammar.Translate(cmd.Commands(), strings.Fields(line))
		text := strings.Join(got, " ")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}

func TestOtherTool(t *testing.T) {
	for line, want := range map[string]string{
		"crictl ps -a":          "omit crictl: 'podrun ps -a'",
		"kubectl get pods":      "omit kubectl: 'podrun get pods'",
		"docker":                "omit docker: 'podrun --help' lists the commands of podrun",
		"docker build .":        grammar.NoBuild,
		"podman rename a b":     grammar.UseManifest,
		"docker exec web sh -c": "omit docker: 'podrun exec web sh -c'",
	} {
		_, err := grammar.Translate(cmd.Commands(), strings.Fields(line))
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Hint != want && !strings.HasPrefix(e.Hint, want[:20]) {
			t.Errorf("%q: %v, want the hint %q", line, err, want)
		}
	}
}

func TestFormatHint(t *testing.T) {
	for line, want := range map[string]string{
		"get --format json":       "use 'podrun get -o json'",
		"get --format {{json_.}}": "use 'podrun get -o json'",
		"get --format {{.Size}}":  "use 'podrun get NAME -o jsonpath",
		"events --format json":    "use 'podrun events -o json'",
	} {
		var typed grammar.Line
		root := cmd.Commands()
		typed.Typed = strings.Fields(line)
		for i := range typed.Typed {
			typed.Typed[i] = strings.ReplaceAll(typed.Typed[i], "_", " ")
		}
		c, _, err := root.Find(typed.Typed[:1])
		if err != nil {
			t.Fatal(err)
		}
		if got := exit.HintFor(typed.UnknownFlag(c, "format", errors.New("unknown"))); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestTranslateRequest(t *testing.T) {
	for line, want := range map[string]string{
		"__complete ge":                   "__complete ge",
		"__complete rm w":                 "__complete delete w",
		"__completeNoDesc -n shop rm -f ": "__completeNoDesc -n shop delete --force ",
		"__complete ps ":                  "__complete get ",
		"__complete edit w":               "__complete edit w",
		"__complete exec web ls -":        "__complete exec web -- ls -",
		"__complete get po/web":           "__complete get po/web",
	} {
		got := complete.TranslateRequest(cmd.Commands(), strings.Split(line, " "))
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}

// TestForeignNames checks that the tables list only commands and flags that podrun does
// not have.
func TestForeignNames(t *testing.T) {
	root := cmd.Commands()
	for name := range grammar.SameAs {
		if grammar.IsCommandName(root, name) || grammar.UseInstead[name] != "" {
			t.Errorf("%s occurs in two tables", name)
		}
	}
	for name := range grammar.UseInstead {
		if c, _, err := root.Find(strings.Fields(name)); err == nil && c.IsAvailableCommand() && c.CommandPath() == "podrun "+name {
			t.Errorf("podrun has the command %s", name)
		}
	}
	for key := range grammar.ForeignFlags {
		words := strings.Fields(key)
		flag := words[len(words)-1]
		c, _, err := root.Find(words[:len(words)-1])
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		set := c.Flags()
		set.AddFlagSet(c.InheritedFlags())
		if len(words) > 1 && (set.Lookup(flag) != nil || len(flag) == 1 && set.ShorthandLookup(flag) != nil) {
			t.Errorf("podrun has the flag of %q", key)
		}
	}
}

func TestLikely(t *testing.T) {
	names := []string{"apply", "delete", "describe", "exec", "get", "logs", "restart", "start", "stop", "wait"}
	for typed, want := range map[string]string{
		"aply": "apply", "appply": "apply", "aplpy": "apply", "delte": "delete", "log": "", "exce": "exec", "strat": "start", "sotp": "stop",
		"edit": "", "top": "", "set": "", "wai": "", "weit": "wait", "apply": "", "rstart": "restart", "": "", "zzzz": "",
	} {
		if got := grammar.ClosestName(typed, names); got != want {
			t.Errorf("likely(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := grammar.ClosestName("starp", []string{"start", "stare"}); got != "" {
		t.Errorf("%q is suggested, although another name is equally likely", got)
	}
	if !slices.Contains(names, grammar.ClosestName("describ", names)) {
		t.Error("describ")
	}
}
