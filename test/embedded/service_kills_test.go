package embedded

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// killText is a Service with a pod, in one file.
const killText = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: %s, command: [httpd, -f, -p, "8080", -h, /www]}]
`

// TestKilledAtServiceSteps kills apply and delete at the steps that change records, names and rules of a
// Service. After the next apply, the virtual IP must answer; after the next delete, no record, name, rule
// or route may remain. In ring 3, it tries all steps, otherwise one in seven.
func TestKilledAtServiceSteps(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.write("web.yaml", fmt.Sprintf(killText, imageName))
	r.must("runtime", "up")
	every, cells := 7, 0
	if ring.Is(3) {
		every = 1
	}
	for _, command := range []string{"apply", "delete"} {
		if command == "delete" {
			r.must("apply", "web.yaml")
		}
		args := []string{command, "-f", "web.yaml"}
		steps := r.serviceSteps(args)
		if len(steps) < 8 {
			t.Errorf("%s has only the steps %q", command, steps)
		}
		r.must("delete", "--ignore-not-found", "-f", "web.yaml")
		for _, step := range steps {
			for _, then := range []string{"apply", "delete"} {
				if cells++; cells%every != 0 {
					continue
				}
				if command == "delete" {
					r.must("apply", "web.yaml")
				}
				c := r.command(plain, args...)
				c.Env = append(c.Env, "PODRUN_FAULTPOINT="+step)
				if out, err := c.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("%s is not killed at %s: %v\n%s", command, step, err, out)
				}
				t.Logf("%s killed at %s, then %s", command, step, then)
				if then == "apply" {
					r.must("apply", "web.yaml")
					ip := r.must("get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
					r.serves(net.JoinHostPort(ip, "80"))
				}
				r.must("delete", "--ignore-not-found", "-f", "web.yaml")
				r.hasNoService()
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d of %d cells", cells/every, cells)
}

// serviceSteps returns the steps of a command that concern Services, from the trace of a run that is not killed.
func (r *rig) serviceSteps(args []string) (out []string) {
	r.Helper()
	file := filepath.Join(r.dir, "trace")
	c := r.command(plain, args...)
	c.Env = append(c.Env, "PODRUN_FAULTPOINT_TRACE="+file)
	text, err := c.CombinedOutput()
	if err != nil {
		r.Fatalf("%v: %v\n%s", args, err, text)
	}
	trace, err := os.ReadFile(file)
	if err != nil || os.Remove(file) != nil {
		r.Fatal(err)
	}
	for step := range strings.FieldsSeq(string(trace)) {
		for _, prefix := range []string{"service/", "services/", "file/names.json/", "file/ranges.json/", "file/default_web/", "file/etc-hosts/"} {
			if strings.HasPrefix(step, prefix) {
				out = append(out, step)
			}
		}
	}
	return out
}
