package grammar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
)

func TestForeignFlagHints(t *testing.T) {
	for line, want := range map[string]string{
		"top web -e pid,comm":                                          "top shows CPU and memory; to list the processes of a container, run 'podrun exec web -- ps'",
		"attach web --detach-keys x":                                   "attach does not support detach keys: omit the flag: 'podrun attach web'; without -t, Ctrl-C detaches",
		"get --format {{.Size}}":                                       "use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'",
		"get --format {{range_.Mounts}}x{{end}}":                       "use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'",
		"get -f web.yaml":                                              "get does not read manifests: use 'podrun get NAME', or 'podrun diff -f web.yaml' to compare the manifest with the pods",
		"get po -s URL --token=x --context prod":                       "podrun does not use a cluster: omit the flag: 'podrun get po'",
		"exec -it web -e A=b ls -l":                                    "use 'podrun exec -it web -- env A=b ls -l'",
		"exec web -c app -w /tmp -- ls -l":                             "use 'podrun exec web -c app -- sh -c \"cd /tmp && ls -l\"'",
		"events --field-selector involvedObject.name=web,type=Warning": "use 'podrun events NAME' for the events of one pod, or 'podrun events --types=Warning' for warnings",
		"events --field-selector involvedObject.name=web":              "use 'podrun events web'",
		"events --filter type=Warning -w":                              "use 'podrun events -w --types=Warning'",
	} {
		var typed grammar.Line
		root := cmd.Commands()
		typed.Typed = strings.Split(line, " ")
		flag := ""
		for i, word := range typed.Typed {
			typed.Typed[i] = strings.ReplaceAll(word, "_", " ")
			if name := strings.TrimLeft(word, "-"); name != word && flag == "" && name != "o" && name != "it" && name != "c" {
				flag, _, _ = strings.Cut(name, "=")
			}
		}
		c, _, err := root.Find(typed.Typed[:1])
		if err != nil {
			t.Fatal(err)
		}
		if got := exit.HintFor(typed.UnknownFlag(c, flag, errors.New("unknown"))); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestDockerFlags checks the flags of docker ps and docker inspect that translate converts.
func TestDockerFlags(t *testing.T) {
	for line, want := range map[string]string{
		"ps --format {{.Names}}":                      "get -o custom-columns=NAMES:.metadata.name --no-headers",
		"ps -a --format=table_{{.Names}}|{{.Status}}": "get -a -o custom-columns=NAMES:.metadata.name,STATUS:.status.phase",
		"ps --format {{json_.}}":                      "get -o json",
		"ps --format {{.Names}}|{{.State}}\\t":        `get -o jsonpath={range .items[*]}{.metadata.name}{"|"}{.status.phase}{"\t"}{"\n"}{end}`,
		"ps --format {{.Names}}:{{.Size}}":            "get --format {{.Names}}:{{.Size}}",
		"inspect -f {{.State.Pid}} web":               "get -o json --format {{.State.Pid}} web",
		"ps --format {{.Size}}":                       "get --format {{.Size}}",
		"inspect -f {{.State.Status}} web":            "get -o custom-columns=STATUS:.status.phase --no-headers web",
		"inspect --format {{.Mounts}} web":            "get -o json --format {{.Mounts}} web",
		"get -f web.yaml":                             "get -f web.yaml",
		"ps -f name=web --filter=status=running":      "get --field-selector=metadata.name=web,status.phase=Running",
		"-n shop ps -q --filter label=a=b":            "-n shop get -q --selector=a=b",
		"ps --filter ancestor=nginx":                  "get --filter ancestor=nginx",
		"ps -n 1":                                     "get --last 1",
		"ps -n shop":                                  "get -n shop",
		"ps -l":                                       "get --latest",
		"ps -l a=b":                                   "get -l a=b",
		"container ls -a -n 3":                        "get -a --last 3",
		"pod inspect web":                             "get -o json web",
		"pod rm -f web":                               "delete --force web",
		"container exec web ls":                       "exec web -- ls",
		"container run -d nginx ls":                   "run -d nginx -- ls",
		"-n shop pod logs web":                        "-n shop logs web",
	} {
		words := strings.Split(line, " ")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		got, err := grammar.Translate(cmd.Commands(), words)
		if text := strings.ReplaceAll(strings.Join(got, " "), "table ", "table_"); err != nil || strings.ReplaceAll(text, "json .", "json_.") != want {
			t.Errorf("%s: %q, %v, want %q", line, text, err, want)
		}
	}
}
