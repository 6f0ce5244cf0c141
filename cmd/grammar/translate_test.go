package grammar_test

import (
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cmd/complete"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
)

// typed splits a command line; json_. and table_{ contain a space.
func typed(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.NewReplacer("json_.", "json .", "table_{", "table {").Replace(words[i])
	}
	return words
}

func TestTranslate(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"web.yaml", "job.json"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const ended = "--field-selector=metadata.name=web,status.phase=Running"
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
		"kill web":                   "stop --grace-period=0 web",
		"kill -9 web":                "error: podrun stop has no flag --now",
		"--bogus prod get":           "--bogus prod get", // the flag is the error
		"--help":                     "--help",
		"help get":                   "help get",
		"__complete ge":              "__complete ge",
		"-- get":                     "-- get",
		"get top":                    "get top",
		"get events -w":              "events -w",
		"rm -af":                     "delete --all --force",
		"rmi -f nginx":               "image rm --force nginx",
		"kube play --replace a.yaml": "apply --force a.yaml",
		"replace --force -f a.yaml":  "apply --force -f a.yaml",
		"rollout restart deploy/web": "rollout restart deploy/web",
		"kube generate web":          "get -o yaml web",
		"config":                     "config",
		"-n x get ev web":            "-n x events web",
		"-v":                         "--version",

		// The flags of docker ps and docker inspect.
		"ps --format {{.Names}}":                      "get -o custom-columns=NAMES:.metadata.name --no-headers",
		"ps -a --format=table_{{.Names}}|{{.Status}}": "get -o custom-columns=NAMES:.metadata.name,STATUS:.status.phase",
		"ps --format {{json_.}}":                      "get -o json",
		"ps --format {{.Names}}|{{.State}}\\t":        `get -o jsonpath={range .items[*]}{.metadata.name}{"|"}{.status.phase}{"\t"}{"\n"}{end}`,
		"ps --format {{.Names}}:{{.Size}}":            "error: podrun get has no flag --format",
		"inspect -f {{.State.Status}} web":            "get -o json -o custom-columns=STATUS:.status.phase --no-headers web",
		"inspect -f {{.Name}}{{.State.Status}} web":   "error: podrun get has no flag --format",
		"get -f web.yaml":                             "error: podrun get has no flag -f",
		"ps -f name=web --filter=status=running":      "get " + ended,
		"-n shop ps -q --filter label=a=b":            "-n shop get -q --selector=a=b",
		"ps --filter ancestor=nginx":                  "error: podrun get has no flag --filter",
		"ps -n 1":                                     "error: podrun get has no flag --last",
		"ps -n shop":                                  "get -n shop",
		"ps -l":                                       "error: podrun get has no flag --latest",
		"ps -l a=b":                                   "get -l a=b",
		"container ls -a -n shop":                     "get -n shop",
		"pod inspect web":                             "get -o json web",
		"pod rm -f web":                               "delete --force web",
		"container exec web ls":                       "exec web -- ls",
		"-n shop pod logs web":                        "-n shop logs web",

		// Flags without meaning in podrun.
		"delete web --wait":               "delete web",
		"delete web --wait=true":          "delete web",
		"delete web --wait=false":         "error: podrun delete has no flag --wait=false",
		"apply -f x --cascade=orphan":     "error: podrun apply has no flag --cascade",
		"apply -f x --cascade background": "apply -f x",
		"get -aw --chunk-size 5":          "get -w",
		"get --no-trunc=false":            "error: podrun get has no flag --no-trunc=false",
		"version -q":                      "version",

		// The arguments after a pod or an image belong to the container.
		"exec web -- top":                    "exec web -- top",
		"exec web ls -l":                     "exec web -- ls -l",
		"exec -it web sh -c x":               "exec -it web -- sh -c x",
		"exec web -c app ls":                 "exec web -c app -- ls",
		"exec pod web ls":                    "exec pod web -- ls",
		"exec pod/web ls":                    "exec pod/web -- ls",
		"exec web":                           "exec web",
		"exec web --bogus ls":                "exec web --bogus ls", // the flag is the error
		"run busybox ls -l":                  "run busybox -- ls -l",
		"run -it --rm -v /a:/b busybox:1 sh": "run -it --rm -v /a:/b busybox:1 -- sh",
		"run -p 80:80 nginx --name web":      "run -p 80:80 nginx -- --name web",
		"-v run nginx":                       "--verbose run nginx --",
		"run nginx -- echo":                  "run nginx -- echo",
		"run web --image=nginx -- echo":      "run web --image=nginx -- echo",
		"run --image nginx web -i":           "run --image nginx web -i",
		"run -f web.yaml -d":                 "run -f web.yaml -d",
		"run none.yaml -d":                   "run none.yaml -d",
		"run web -d":                         "run web -d", // web.yaml exists
		"run wbe -d":                         "run wbe -d", // swapped
		"run frob -d":                        "run frob -- -d",
		"run web.ymal -d":                    "run web.ymal -d", // of web.yaml
		"run job:latest -d":                  "run job:latest -- -d",
		"run Pod -d":                         "run Pod -d", // not the name of an image
		"run -h web nginx":                   "run --hostname web nginx --",
		"run --rm -h web nginx -h":           "run --rm --hostname web nginx -- -h",
		"run -h web web.yaml":                "run --hostname web web.yaml",
		"run -h":                             "run -h",
		"run nginx -h":                       "run nginx -- -h",
		"run -h nginx":                       "run -h nginx --",
		"run --bogus all nginx":              "run --bogus all nginx",
		"run":                                "run",

		"-n top rename":   `error: podrun has no command "rename"`,
		"rollout pause w": `error: podrun has no command "rollout pause"`,
		"gte":             `error: "gte" is not a command of podrun (did you mean get?)`,
		"gt pods":         `error: "gt" is not a command of podrun (did you mean get?)`,
		"imgaes":          `error: "imgaes" is not a command of podrun (did you mean images?)`,
		"kubelet --help":  `error: podrun has no command "kubelet"`,
		"crictl ps -a":    `error: podrun has no command "crictl"`,
		"config view":     `error: podrun has no command "config"`,
		"service start":   `error: podrun has no command "service start"`,
		"create sa a":     `error: podrun has no command "create sa"`,
		"frobnicate -f x": `error: "frobnicate" is not a command of podrun`,
		"stpo web":        `error: "stpo" is not a command of podrun (did you mean stop?)`,
	} {
		got, err := grammar.Translate(cmd.Commands(), typed(line))
		text := strings.Join(got, " ")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}

// TestRefusals checks that a hint contains the words of the command line.
func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"kubectl get pods":             "omit kubectl: 'podrun get pods'",
		"docker":                       "omit docker: 'podrun --help' lists the commands of podrun",
		"docker build -t foo .":        "podrun does not build images: run 'docker build -t foo .', then 'docker save foo | podrun image load -'",
		"build .":                      "podrun does not build images: run 'docker build -t TAG .', then 'docker save TAG | podrun image load -'",
		"podman rename a b":            "change the manifest and run 'podrun apply FILE'",
		"reset-failed -n shop web":     "use 'podrun restart web'",
		"unpause deploy/web":           "use 'podrun stop web' and 'podrun start web'; podrun cannot pause containers",
		"try-restart web.service":      "use 'podrun restart web'",
		"try-restart deployment web":   "use 'podrun restart web'",
		"try-restart":                  "use 'podrun restart NAME'",
		"up -f web.yaml":               "use 'podrun apply web.yaml'",
		"up":                           "use 'podrun apply FILE'",
		"compose exec web ls -l":       "use 'podrun exec web ls -l'",
		"compose exec":                 "use 'podrun exec …'",
		"tag a b:2":                    "use 'ctr -a SOCKET -n k8s.io images tag docker.io/library/a:latest docker.io/library/b:2' with containerd",
		"tag":                          "use 'ctr -a SOCKET -n k8s.io images tag SOURCE TARGET' with containerd",
		"import x.tar":                 "for an archive of docker save: 'podrun image load x.tar'; for a root file system: 'docker import x.tar NAME && docker save NAME | podrun image load -'",
		"kustomize build overlays":     "use 'podrun apply -k overlays', or 'podrun apply -k overlays --dry-run=client -o yaml' for its pods",
		"login ghcr.io --password x":   "podrun reads the credentials of docker and podman: use 'docker login ghcr.io', 'podman login ghcr.io' or --registry-auth",
		"login -p x":                   "podrun reads the credentials of docker and podman: use 'docker login REGISTRY', 'podman login REGISTRY' or --registry-auth",
		"secret create a b.txt":        "write a manifest: 'podrun create secret generic a --from-file=b.txt --dry-run=client -o yaml > a.yaml', then run 'podrun apply pod.yaml --secret a.yaml'",
		"run --dns 1.1.1.1 nginx":      "add '--dry-run=client -o yaml > pod.yaml' before the image, set spec.dnsPolicy: None and spec.dnsConfig.nameservers in the file, and run 'podrun run pod.yaml'",
		"top web -e pid,comm":          "top shows CPU and memory; to list the processes of a container, run 'podrun exec web -- ps'",
		"attach web --detach-keys x":   "attach does not support detach keys: omit the flag: 'podrun attach web'; without -t, Ctrl-C detaches",
		"get --format {{.Size}}":       "use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'",
		"get -f web.yaml":              "get does not read manifests: use 'podrun get NAME', or 'podrun diff -f web.yaml' to compare the manifest with the pods",
		"--context=x get po --token y": "podrun does not use a cluster: omit the flag: 'podrun get po'",
		"get --v=6 po":                 "use 'podrun get po --verbose'",
		"exec -it web -e A=b ls -l":    "use 'podrun exec -it web -- env A=b ls -l'",
		"exec web -c app -w /tmp -- a": `use 'podrun exec web -c app -- sh -c "cd /tmp && a"'`,
		"exec -u root web":             `the manifest sets the container's user (securityContext.runAsUser); if the image has su, use 'podrun exec web -- su -s /bin/sh root -c "COMMAND"' with the name of the user`,
		"ps -n 3":                      "use 'podrun get --sort-by=.metadata.creationTimestamp | tail -n 3'",
		"events --field-selector a=b":  "use 'podrun events NAME' for the events of one pod, or 'podrun events --types=Warning' for warnings",
		"events --filter type=Warning": "use 'podrun events --types=Warning'",
		"events -w --field-selector=involvedObject.name=web": "use 'podrun events -w web'",
		"events --format json":                               "use 'podrun events -o json'",
		"delete web --wait=false":                            "delete returns when the pod is completely removed: omit the flag: 'podrun delete web'",
	} {
		if _, err := grammar.Translate(cmd.Commands(), typed(line)); err == nil || exit.Code(err) != exit.Usage || exit.HintFor(err) != want {
			t.Errorf("%s: %v: %q, want %q", line, err, exit.HintFor(err), want)
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

// TestWords checks that words.txt lists only commands and flags that podrun does not have, and flags of existing
// commands. test/flags runs the commands of its hints.
func TestWords(t *testing.T) {
	root := cmd.Commands()
	for _, key := range grammar.Words() {
		command, flag, isFlag := strings.Cut(" "+key, " -")
		c, rest, err := root.Find(strings.Fields(command))
		switch {
		case strings.HasSuffix(key, "/") || strings.HasPrefix(key, "{{"):
		case isFlag && (err != nil || len(rest) > 0 || c == root) && command != "" && !grammar.IsForeign(strings.TrimSpace(command)):
			t.Errorf("%s: podrun does not know the command", key)
		case isFlag && command != "" && c != root:
			flag, _, _ = strings.Cut(strings.TrimPrefix(flag, "-"), " ")
			if set := c.Flags(); set.Lookup(flag) != nil || c.InheritedFlags().Lookup(flag) != nil || len(flag) == 1 && set.ShorthandLookup(flag) != nil {
				t.Errorf("podrun has the flag of %q", key)
			}
		case !isFlag && err == nil && c.IsAvailableCommand() && c.CommandPath() == "podrun "+key:
			t.Errorf("podrun has the command %s", key)
		}
	}
}
