package flags

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/test/ring"
)

const (
	staysSpec = `{dnsPolicy: Default, terminationGracePeriodSeconds: 1, containers: [{name: stays, image: "registry.example/app:1"}]}`
	endsSpec  = `{dnsPolicy: Default, restartPolicy: Never, containers: [{name: ends, image: "registry.example/app:1"}]}`
	shopHead  = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop, labels: {app: shop}, annotations: {podrun.dev/replicas: honour}}\n"
	shopSpec  = "spec: {replicas: %d, selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: " + staysSpec + "}}\n"
	service   = "apiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {app: web}}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n"
)

func pod(name, app, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec: %s\n", name, app, spec)
}

// files are the files of the host. A host starts with the objects of before.yaml. The file
// apply.yaml contains a new Service and a new pod, and reduces a Deployment to no pods.
var files = map[string]string{
	"before.yaml": strings.Join([]string{
		pod("web", "web", staysSpec), pod("old", "web", staysSpec), pod("job", "web", endsSpec), pod("halted", "halted", staysSpec),
		shopHead + fmt.Sprintf(shopSpec, 2), fmt.Sprintf(service, "front"),
	}, "---\n"),
	"apply.yaml": strings.Join([]string{
		fmt.Sprintf(service, "back"), shopHead + fmt.Sprintf(shopSpec, 0), pod("new", "web", endsSpec),
	}, "---\n"),
	"run.yaml":                         pod("task", "task", endsSpec),
	"shop.yaml":                        shopHead + fmt.Sprintf(shopSpec, 2),
	"manifests/served.yaml":            pod("served", "served", staysSpec),
	"settings.yaml":                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {key: value}\n",
	"secret.yaml":                      "apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {key: value}\n",
	"kustomization/kustomization.yaml": "resources: [pod.yaml]\n",
	"kustomization/pod.yaml":           pod("kustomized", "web", endsSpec),
	"file":                             "text\n",
	"env":                              "A=b\n",
	"patch":                            `{"metadata":{"labels":{"c":"d"}}}`,
	"config.yaml":                      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {}\nimageGCHighThresholdPercent: 100\n",
}

// rig calls commands on a host. It replaces the host after a command has changed it.
type rig struct {
	*testing.T       // of the command
	codes      []int // documented exit codes
	host       *host
	before     state
	// also changes a new host further. during makes calls fail until end is called. Both may be nil.
	also   func(h *host) error
	during func(h *host) (end func())
}

// documentedCodes returns the exit codes of docs/exit-codes.md.
func documentedCodes(t *testing.T) (codes []int) {
	data, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| \w+ \|`).FindAllSubmatch(data, -1) {
		code, err := strconv.Atoi(string(row[1]))
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	if len(codes) < 10 {
		t.Fatalf("docs/exit-codes.md lists the codes %v", codes)
	}
	return codes
}

// drop removes the host.
func (r *rig) drop() {
	if r.host == nil {
		return
	}
	if err := r.host.close(); err != nil {
		r.Error(err)
	}
	r.host = nil
}

// prepare makes a host with the objects of before.yaml, unless the last command has left one.
func (r *rig) prepare() (err error) {
	if r.host != nil {
		return nil
	}
	if r.host, err = newHost(files); err != nil {
		return err
	}
	for _, line := range []string{"apply -q @/before.yaml", "stop -q halted", "wait -q --for=completed job"} {
		if got := r.host.call(r.Context(), false, words(line)); got.code != 0 || got.problem != "" {
			return fmt.Errorf("podrun %s: %s", line, got)
		}
	}
	if err := r.host.addCronJob("nightly"); err != nil {
		return err
	}
	if r.also != nil {
		if err := r.also(r.host); err != nil {
			return err
		}
	}
	r.before, err = r.host.state(r.Context())
	return err
}

// try calls a command and checks what holds for all commands.
func (r *rig) try(c call) {
	if err := r.prepare(); err != nil {
		r.Error(err)
		r.drop()
		return
	}
	end := func() {}
	if r.during != nil {
		end = r.during(r.host)
	}
	got := r.host.call(r.Context(), c.blocks, c.args)
	end()
	after, err := r.host.state(r.Context())
	if err != nil {
		r.Error(err)
	}
	changed := r.before.changed(after)
	for _, wrong := range r.check(c.args, c.blocks, got, changed) {
		r.Errorf("podrun %s: %s\n%s", strings.Join(c.args, " "), wrong, got)
	}
	if len(changed) > 0 || got.problem != "" || err != nil {
		r.drop()
	}
}

// check returns what is wrong with the result of a command.
func (r *rig) check(args []string, blocks bool, got result, changed []string) (wrong []string) {
	if got.problem != "" {
		return []string{got.problem}
	}
	if !slices.Contains(r.codes, got.code) {
		wrong = append(wrong, "the exit code is not documented")
	}
	if slices.ContainsFunc(args, func(word string) bool { return strings.HasPrefix(word, "--dry-run") }) && len(changed) > 0 {
		wrong = append(wrong, fmt.Sprintf("the dry run changed %q", changed))
	}
	for _, object := range changed {
		if !unreported(args, object, changed) && !mentions(got.stdout+"\n"+got.stderr, object) {
			wrong = append(wrong, "the output does not contain the changed "+object)
		}
	}
	if !blocks {
		wrong = append(wrong, checkData(args, got.stdout)...)
	}
	return wrong
}

// unreported reports whether the output of a command need not contain an object that it has changed.
func unreported(args []string, object string, changed []string) bool {
	kind, name, _ := strings.Cut(object, " ")
	quiet := slices.Contains(args, "--quiet")
	switch {
	case kind == "image" && args[0] != "image": // an image that a pod requires
	case kind == "workload" && slices.ContainsFunc(changed, func(o string) bool { return isReplica(o, name) }): // its pods are in the output
	case args[0] == "debug": // prints the new container of the pod that the user named
	case args[0] == "serve": // reports changes only until it is interrupted
	case quiet && (args[0] == "image" || args[0] == "gc"): // -q omits the names
	default:
		return false
	}
	return true
}

// isReplica reports whether an object is a pod of the workload with the given name.
func isReplica(object, workload string) bool {
	return object == "pod "+workload || strings.HasPrefix(object, "pod "+workload+"-")
}

// mentions reports whether an output contains the name of an object or, of a replica, its workload's.
func mentions(output, object string) bool {
	_, name, _ := strings.Cut(object, " ")
	names := regexp.QuoteMeta(name)
	if isReplica(object, "shop") {
		names += "|deployment.apps/shop"
	}
	return regexp.MustCompile(`(^|[^\w-])(` + names + `)($|[^\w-])`).MatchString(output)
}

// checkData checks that the output is in the format that -o requests.
func checkData(args []string, stdout string) []string {
	switch {
	case slices.Contains(args, "--output=json"):
		decoder := json.NewDecoder(strings.NewReader(stdout))
		for {
			var v any
			if err := decoder.Decode(&v); err == io.EOF {
				return nil
			} else if err != nil {
				return []string{"the output is not JSON: " + err.Error()}
			}
		}
	case slices.Contains(args, "--output=yaml"):
		var v any
		for _, document := range bytes.Split([]byte(stdout), []byte("\n---\n")) {
			if err := yaml.Unmarshal(document, &v); err != nil {
				return []string{"the output is not YAML: " + err.Error()}
			}
		}
	}
	return nil
}

// TestCommandsKnown checks that the tables contain every command, and a value for every flag.
func TestCommandsKnown(t *testing.T) {
	known := map[string]bool{}
	for _, c := range commands() {
		known[c.path] = true
		if len(forms[c.path]) == 0 {
			t.Errorf("%s: add its arguments to forms", c.path)
		}
		for _, f := range c.flags {
			if len(options(c.path, f)) == 0 {
				t.Errorf("%s --%s (%s): add a value to values", c.path, f.Name, f.Value.Type())
			}
		}
	}
	for path := range forms {
		if !known[path] {
			t.Errorf("forms contains %s, which is not a command", path)
		}
	}
}

// call is a command line, and whether the command ends only if it is interrupted.
type call struct {
	args   []string
	blocks bool
}

// calls returns the command lines of a command: without flags, with each of its flags, with each of
// them and each value of -o, and with each pair.
func calls(c command) (bare, single, pairs []call) {
	seen := map[string]bool{}
	add := func(to *[]call, f form, given ...option) {
		args, blocks := line(c.path, f, given...)
		if text := strings.Join(args, "\x00"); !seen[text] {
			seen[text] = true
			*to = append(*to, call{args, blocks})
		}
	}
	for n, f := range forms[c.path] {
		add(&bare, f)
		for i, flag := range c.flags {
			for _, o := range options(c.path, flag) {
				to := &single
				if flag.Name == "output" {
					to = &bare
				}
				add(to, f, o)
				if n > 0 && c.path != "podrun run" {
					continue // the other forms would repeat the checks of the same pairs
				}
				for _, other := range c.flags[i+1:] {
					for _, second := range options(c.path, other) {
						add(&pairs, f, o, second)
					}
				}
			}
		}
	}
	return bare, single, pairs
}

// TestFlags calls each command with each value of -o, with its flags, and with pairs of its flags. In
// ring 1, it selects a part of the flags and pairs; in ring 2, a third of the pairs.
func TestFlags(t *testing.T) {
	ring.RequireRoot(t)
	// The numbers have no common divisor with the numbers of flags of most commands.
	everyFlag, everyPair := 7, 307
	if ring.Is(2) {
		everyFlag, everyPair = 1, 3
	}
	if ring.Is(3) {
		everyPair = 1
	}
	rigs := newRigs(t)
	singles, pairs := 0, 0
	for _, c := range commands() {
		chosen, single, pair := calls(c)
		for _, call := range single {
			if singles++; singles%everyFlag == 0 {
				chosen = append(chosen, call)
			}
		}
		for _, call := range pair {
			if pairs++; pairs%everyPair == 0 {
				chosen = append(chosen, call)
			}
		}
		t.Run(strings.TrimPrefix(c.path, "podrun "), func(t *testing.T) { tryAll(t, rigs, chosen) })
	}
}

// newRigs returns a rig for each call at the same time. Commands mostly wait, but each rig needs a host.
func newRigs(t *testing.T) []*rig {
	codes := documentedCodes(t)
	rigs := make([]*rig, 6)
	if ring.Is(2) {
		rigs = make([]*rig, 24)
	}
	for i := range rigs {
		rigs[i] = &rig{T: t, codes: codes}
		t.Cleanup(func() {
			rigs[i].T = t
			rigs[i].drop()
		})
	}
	return rigs
}

// tryAll tries all calls.
func tryAll(t *testing.T, rigs []*rig, all []call) {
	next := make(chan call)
	var workers sync.WaitGroup
	for _, r := range rigs {
		r.T = t
		workers.Go(func() {
			for c := range next {
				r.try(c)
			}
		})
	}
	for _, c := range all {
		next <- c
	}
	close(next)
	workers.Wait()
}
