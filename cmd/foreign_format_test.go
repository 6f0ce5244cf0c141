package cmd

import (
	"errors"
	"strings"
	"testing"
)

func TestForeignFlagHints(t *testing.T) {
	for line, want := range map[string]string{
		"top web -e pid,comm":                                          "top shows CPU and memory; to list the processes of a container, run 'podrun exec web -- ps'",
		"attach web --detach-keys x":                                   "attach does not support detach keys: omit the flag: 'podrun attach web'; without -t, Ctrl-C detaches",
		"get --format {{.Names}}":                                      "use 'podrun get -o custom-columns=NAMES:.metadata.name --no-headers'",
		"get --format table_{{.Names}}\t{{.Status}}":                   "use 'podrun get -o custom-columns=NAMES:.metadata.name,STATUS:.status.phase'",
		"get -o json --format={{.State.Status}} web":                   "use 'podrun get web -o custom-columns=STATUS:.status.phase --no-headers'",
		"get --format {{.Size}}":                                       "use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'",
		"get --format {{range_.Mounts}}x{{end}}":                       "use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'",
		"get --filter name=web -q":                                     "use 'podrun get -q web'",
		"get --filter=label=app=web":                                   "use 'podrun get -l app=web'",
		"get -f status=running":                                        "use 'podrun get --field-selector=status.phase=Running'",
		"get -f status=exited":                                         "use 'podrun get '--field-selector=status.phase!=Running''",
		"get -f web.yaml":                                              "use 'podrun get NAME': get does not read manifests",
		"events --field-selector involvedObject.name=web,type=Warning": "use 'podrun events NAME' for the events of one pod, or 'podrun events --types=Warning' for warnings",
		"events --field-selector involvedObject.name=web":              "use 'podrun events web'",
		"events --filter type=Warning -w":                              "use 'podrun events -w --types=Warning'",
	} {
		a := newApp(Streams{})
		root := newRoot(a)
		a.typed = strings.Split(line, " ")
		flag := ""
		for i, word := range a.typed {
			a.typed[i] = strings.ReplaceAll(word, "_", " ")
			if name := strings.TrimLeft(word, "-"); name != word && flag == "" && name != "o" {
				flag, _, _ = strings.Cut(name, "=")
			}
		}
		c, _, err := root.Find(a.typed[:1])
		if err != nil {
			t.Fatal(err)
		}
		if got := hintFor(a.unknownFlag(c, flag, errors.New("unknown"))); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
