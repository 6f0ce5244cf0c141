package embedded

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// replicasText is a Deployment with three pods that answer with their hostnames, and its Service.
const replicasText = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {podrun.dev/replicas: honour}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: %s
        command: [sh, -c, "busybox hostname > /d/index.html; exec httpd -f -p 8080 -h /d"]
        volumeMounts: [{name: d, mountPath: /d}]
      volumes: [{name: d, emptyDir: {}}]
`

// TestReplicas checks that a Service distributes its connections among all replicas of a Deployment, and
// that its endpoints follow the number of replicas.
func TestReplicas(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.write("web.yaml", fmt.Sprintf(replicasText, imageName))
	r.must("runtime", "up")
	r.must("apply", "web.yaml")
	virtual := net.JoinHostPort(r.must("get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}"), "80")
	r.shares(virtual, "web", "web-1", "web-2")
	if addresses := r.must("get", "endpointslices", "-o", "jsonpath={.items[*].endpoints[*].addresses[0]}"); len(strings.Fields(addresses)) < 3 {
		t.Errorf("endpoints %q", addresses)
	}
	if out := r.must("get", "deploy", "web", "--no-headers"); !strings.Contains(out, "3/3") {
		t.Errorf("get deploy: %q", out)
	}
	r.must("scale", "deploy/web", "--replicas=2")
	r.shares(virtual, "web", "web-1")
	r.must("scale", "deploy/web", "--replicas=0")
	r.refuses(virtual)
	r.must("scale", "deploy/web", "--replicas=3")
	r.shares(virtual, "web", "web-1", "web-2")
	r.must("delete", "-f", "web.yaml")
	r.hasNoService()
}

// shares waits until each of the given pods has responded to a connection to an address: the server of a new
// pod does not listen immediately. It then checks that exactly these pods respond. Each of n pods receives
// a connection with a probability of 1/n. The probability that a given one of three pods receives none of
// 200 connections is 10^-35.
func (r *rig) shares(address string, pods ...string) {
	r.Helper()
	waiting := slices.Clone(pods)
	r.until("all pods respond", func() bool {
		answer, err := get(address)
		waiting = slices.DeleteFunc(waiting, func(pod string) bool { return err == nil && pod == answer })
		return len(waiting) == 0
	})
	answers := map[string]int{}
	for range 200 {
		answer, err := get(address)
		if err != nil {
			r.Fatalf("%s: %v", address, err)
		}
		answers[answer]++
	}
	if got := slices.Sorted(maps.Keys(answers)); !slices.Equal(got, pods) {
		r.Errorf("%s: answers %v, want answers of %v", address, answers, pods)
	}
	r.Logf("%s: %v", address, answers)
}
