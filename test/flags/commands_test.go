package flags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd"
)

// form is a way to call a command: its arguments, which follow the flags.
type form struct {
	args []string
	// instead contains the arguments that replace args if the flag is given.
	instead map[string][]string
}

func words(line string) []string { return strings.Fields(line) }

// selects returns the form of a command that accepts names or, with --all or -l, others.
func selects(args, others string) form {
	return form{words(args), map[string][]string{"all": words(others), "selector": words(others)}}
}

// reads returns the form of a command that accepts files as arguments and with -f and -k.
func reads(args string) form {
	return form{words(args), map[string][]string{"filename": nil, "kustomize": nil}}
}

// forms are the ways to call each command.
var forms = map[string][]form{
	"podrun":                               {{}},
	"podrun annotate":                      {changesKeys},
	"podrun apply":                         {reads("@/apply.yaml")},
	"podrun attach":                        {{args: words("web")}},
	"podrun completion":                    {{}},
	"podrun completion bash":               {{}},
	"podrun completion fish":               {{}},
	"podrun completion powershell":         {{}},
	"podrun completion zsh":                {{}},
	"podrun cp":                            {{args: words("web:/etc/hostname @/copied")}},
	"podrun create":                        {reads("@/apply.yaml")},
	"podrun create configmap":              {{args: words("made --from-literal=a=b")}},
	"podrun create cronjob":                {{args: []string{"made", "--image=registry.example/app:1", "--schedule=0 3 * * *"}}},
	"podrun create deployment":             {{args: words("made --image=registry.example/app:1")}},
	"podrun create job":                    {{args: words("made --image=registry.example/app:1")}},
	"podrun create secret":                 {{}},
	"podrun create secret generic":         {{args: words("made --from-literal=a=b")}},
	"podrun create secret tls":             {{args: words("made --cert=@/file --key=@/file")}},
	"podrun debug":                         {{args: words("web --image=registry.example/app:1 -- true")}},
	"podrun delete":                        {deletes("web"), deletes("deploy/shop job"), {args: words("all --all")}, {args: words("svc/front")}, {args: words("cronjob/nightly")}},
	"podrun describe":                      {{words("web"), map[string][]string{"selector": nil, "all-namespaces": nil}}, {args: words("all")}},
	"podrun diff":                          {reads("@/apply.yaml")},
	"podrun doctor":                        {{}},
	"podrun edit":                          {selects("web", "")},
	"podrun events":                        {{words("web"), map[string][]string{"all-namespaces": nil, "for": nil}}},
	"podrun exec":                          {{args: words("web -- true")}},
	"podrun explain":                       {{args: words("pod.spec")}},
	"podrun gc":                            {{}},
	"podrun get":                           {{words("web"), map[string][]string{"selector": nil, "all-namespaces": nil, "field-selector": nil, "sources": nil}}, {args: words("all")}},
	"podrun help":                          {{args: words("apply")}},
	"podrun image":                         {{}},
	"podrun image load":                    {{words("@/file"), map[string][]string{"input": nil}}},
	"podrun image ls":                      {{}},
	"podrun image prune":                   {{}},
	"podrun image pull":                    {{args: words("registry.example/far:1")}},
	"podrun image rm":                      {{args: words("registry.example/app:2")}},
	"podrun image save":                    {{args: words("registry.example/app:2")}},
	"podrun label":                         {changesKeys},
	"podrun logs":                          {{words("web"), map[string][]string{"selector": nil, "all-pods": nil}}},
	"podrun options":                       {{}},
	"podrun patch":                         {{[]string{"web", `--patch={"metadata":{"labels":{"a":"b"}}}`}, map[string][]string{"all": {`--patch={"metadata":{"labels":{"a":"b"}}}`}, "selector": {`--patch={"metadata":{"labels":{"a":"b"}}}`}, "patch-file": words("web")}}},
	"podrun plan":                          {reads("@/apply.yaml")},
	"podrun port-forward":                  {{args: words("web :80")}},
	"podrun restart":                       {selects("web", ""), selects("deploy/shop", "")},
	"podrun rollout":                       {{}},
	"podrun rollout history":               {selects("web", "")},
	"podrun rollout restart":               {selects("web", ""), selects("deploy/shop", "")},
	"podrun rollout status":                {selects("web", "")},
	"podrun rollout undo":                  {selects("web", "")},
	"podrun run":                           {reads("@/run.yaml"), {words("registry.example/app:1 true"), map[string][]string{"image": words("made -- true")}}},
	"podrun runtime":                       {{}},
	"podrun runtime down":                  {{}},
	"podrun runtime logs":                  {{}},
	"podrun runtime status":                {{}},
	"podrun runtime up":                    {{}},
	"podrun runtime upgrade":               {{}},
	"podrun scale":                         {scales("1"), scales("3")},
	"podrun serve":                         {{args: words("@/manifests")}},
	"podrun serve reload":                  {{}},
	"podrun service":                       {{}},
	"podrun service install":               {{args: words("@/manifests --prefix=@/prefix")}},
	"podrun service status":                {{}},
	"podrun service uninstall":             {{args: words("--prefix=@/prefix")}},
	"podrun set":                           {{}},
	"podrun set env":                       {{words("web A=b"), map[string][]string{"all": words("A=b"), "selector": words("A=b"), "list": words("web"), "from": words("web")}}},
	"podrun set image":                     {selects("web stays=registry.example/app:2", "stays=registry.example/app:2")},
	"podrun set resources":                 {selects("web --limits=memory=64Mi", "--limits=memory=64Mi")},
	"podrun start":                         {selects("halted", "")},
	"podrun stop":                          {selects("web", "")},
	"podrun top":                           {{}},
	"podrun version":                       {{}},
	"podrun wait":                          {selects("web --for=condition=Ready", "--for=condition=Ready"), selects("job", "")},
	"podrun create secret docker-registry": {{args: words("made --docker-username=a --docker-password=b")}},
}

// changesKeys is the form of label and annotate.
var changesKeys = form{words("web a=b"), map[string][]string{"all": words("a=b"), "selector": words("a=b"), "list": words("web")}}

func deletes(args string) form {
	return form{words(args), map[string][]string{"all": nil, "all-namespaces": nil, "selector": nil, "filename": nil, "kustomize": nil}}
}

func scales(replicas string) form {
	n := "--replicas=" + replicas
	return form{words("deploy/shop " + n), map[string][]string{"all": words("deploy " + n), "selector": words("deploy " + n), "filename": words(n), "kustomize": words(n)}}
}

// values are the values of flags, by the command and the flag, or by the flag alone. A value that
// begins with - replaces the flag. Flags without a value here are of a type that typeValues contains.
var values = map[string][]string{
	"podrun apply all-namespaces":       nil,
	"podrun apply prune":                {"--prune --selector=app=web"},
	"podrun apply selector":             {"--prune --selector=app=web"},
	"podrun apply wait":                 {"ready", "completed"},
	"podrun create prune":               {"--prune --selector=app=web"},
	"podrun create selector":            {"--prune --selector=app=web"},
	"podrun create wait":                {"ready", "completed"},
	"podrun delete all-namespaces":      {"--all-namespaces --all"},
	"podrun create job from":            {"cronjob/nightly"},
	"podrun create secret tls key":      {"@/file"},
	"podrun cp container":               {"stays"},
	"podrun debug container":            {"debugger"},
	"podrun scale filename":             {"@/shop.yaml"},
	"podrun rollout history revision":   {"1"},
	"podrun rollout undo to-revision":   {"1"},
	"podrun events types":               {"Normal"},
	"podrun get sort-by":                {".metadata.name"},
	"podrun get template":               {"{{.kind}}"},
	"podrun get output":                 {"json", "name", "yaml", "wide", "jsonpath={.kind}", "custom-columns=NAME:.metadata.name"},
	"podrun image ls output":            {"json", "yaml"},
	"podrun image ls format":            {"{{.Repository}}"},
	"podrun image save format":          {"oci-archive"},
	"podrun image save output":          {"@/saved.tar"},
	"podrun patch type":                 {"merge"},
	"podrun create secret generic type": {"Opaque"},
	"podrun run restart":                {"Never"},
	"podrun create cronjob restart":     {"OnFailure"},
	"podrun set env prefix":             {"X_"},
	"podrun service install prefix":     {"@/prefix"},
	"podrun service uninstall prefix":   {"@/prefix"},
	"podrun set env containers":         {"stays"},
	"podrun set env env":                {"A=c"},
	"podrun set env from":               {"configmap/settings"},
	"podrun set env keys":               {"key"},
	"podrun set resources limits":       {"memory=32Mi"},
	"podrun set resources containers":   {"stays"},
	"podrun set resources requests":     {"memory=16Mi"},
	"podrun top sort-by":                {"cpu"},
	"podrun wait for":                   {"condition=Ready", "completed", "--for=delete --timeout=10ms"},
	"podrun run volume":                 {"data:/data"},
	"podrun doctor output":              {"json", "yaml"},
	"podrun run output":                 {"json", "yaml"},

	"address": {"127.0.0.1"}, "annotations": {"a=b"}, "api-socket": {"@/api.sock"}, "binary": {"/bin/true"},
	"cap-add": {"NET_ADMIN"}, "cap-drop": {"ALL"}, "cert": {"@/file"}, "client-ca-file": {"@/file"}, "configmap": {"@/settings.yaml"},
	"container": {"stays"}, "copy-to": {"copy"}, "cpus": {"0.5"}, "current-replicas": {"2"}, "docker-email": {"a@example.com"},
	"docker-password": {"b"}, "docker-server": {"registry.example"}, "docker-username": {"a"}, "dry-run": {"client", "server"},
	"entrypoint": {"true"}, "env": {"A=b"}, "env-file": {"@/env"}, "exit-code-from": {"ends"}, "exit-code-policy": {"all"},
	"facts": {"@/file"}, "field-selector": {"status.phase=Running"}, "filename": {"@/apply.yaml"}, "for": {"pod/web"},
	"from-env-file": {"@/env"}, "from-file": {"@/file"}, "from-literal": {"c=d"}, "hostname": {"box"}, "image": {"registry.example/app:1"},
	"image-pull-policy": {"IfNotPresent"}, "input": {"@/file"}, "kustomize": {"@/kustomization"}, "label": {"a=b"}, "labels": {"a=b"},
	"label-columns": {"app"}, "listen": {"127.0.0.1:0"}, "log-file": {"@/log"}, "memory": {"64Mi"}, "name": {"named"}, "net": {"host"},
	"network": {"host"}, "output": {"json", "name", "yaml"}, "patch": {`{"metadata":{"labels":{"c":"d"}}}`}, "patch-file": {"@/patch"},
	"pid": {"2147483647"}, "port": {"8080"}, "profile": {"general"}, "publish": {"0:8080"}, "pull": {"always"}, "pvc": {"data=@/claims"},
	"readonly-socket": {"@/readonly.sock"}, "replicas": {"2"}, "restart-policy": {"Never"}, "schedule": {"0 4 * * *"},
	"secret": {"@/secret.yaml"}, "selector": {"app=web"}, "set-image": {"ends=registry.example/app:2"}, "since-time": {"2020-01-01T00:00:00Z"},
	"skip-kinds": {"Widget"}, "socket-group": {"root"}, "source-header-file": {"@/file"}, "source-verify": {"@/file"}, "target": {"stays"}, "tls-cert-file": {"@/file"},
	"tls-private-key-file": {"@/file"}, "user": {"1000"}, "validate": {"warn"}, "wait": {"ready"}, "workdir": {"/"},
}

// typeValues are the values of flags whose type is sufficient to choose one.
var typeValues = map[string]string{
	"duration": "1m", "int": "1", "int32": "1", "int64": "1", "ignored": "x",
}

// option is a flag with a value: the words of a command line.
type option struct {
	flag  string
	words []string
}

// options returns the values of a flag that the test tries, or nil if it knows none.
func options(command string, f *pflag.Flag) []option {
	of := func(value string) option {
		switch {
		case strings.HasPrefix(value, "--"):
			return option{f.Name, words(value)}
		case value == "":
			return option{f.Name, []string{"--" + f.Name}}
		}
		return option{f.Name, []string{"--" + f.Name + "=" + value}}
	}
	list, ok := values[command+" "+f.Name]
	if !ok {
		list, ok = values[f.Name]
	}
	var out []option
	switch value, typed := typeValues[f.Value.Type()]; {
	case ok:
		for _, value := range list {
			out = append(out, of(value))
		}
	case f.NoOptDefVal != "":
		out = []option{of("")}
	case typed:
		out = []option{of(value)}
	}
	return out
}

// command is a command with its own flags.
type command struct {
	path  string
	flags []*pflag.Flag
}

// commands returns all commands that can be called.
func commands() (out []command) {
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if c.Runnable() {
			of := command{path: c.CommandPath()}
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { of.flags = append(of.flags, f) })
			out = append(out, of)
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(cmd.Commands())
	return out
}

// blocking are the commands and flags that end only if they are interrupted.
var blocking = []string{
	"podrun serve", "podrun attach", "podrun port-forward",
	"podrun logs follow", "podrun get watch", "podrun get watch-only", "podrun events watch", "podrun top watch", "podrun runtime logs follow",
}

// line returns a command line, and whether it ends only if it is interrupted.
func line(path string, f form, given ...option) (args []string, blocks bool) {
	args, blocks = words(path)[1:], slices.Contains(blocking, path)
	positional := f.args
	for _, o := range given {
		args = append(args, o.words...)
		if instead, ok := f.instead[o.flag]; ok {
			positional = instead
		}
		blocks = blocks || slices.Contains(blocking, path+" "+o.flag)
	}
	return append(args, positional...), blocks
}
