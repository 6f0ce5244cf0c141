package embedded

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// shopText contains a Service, a pod that serves it and whose readiness depends on a file, and a
// client.
const shopText = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: http, nodePort: %[2]d}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %[1]s
    command: [sh, -c, "busybox touch /d/ready; exec httpd -f -p 8080 -h /www"]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1, exec: {command: [busybox, test, -e, /d/ready]}}
    volumeMounts: [{name: d, mountPath: /d}]
  volumes: [{name: d, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: client, image: %[1]s, command: [sleep, "100000"]}]
`

// syncTicks is less than the interval at which podrun serve checks the rules even without a change, so
// that the test fails, on a quiet machine, if serve does not detect a change.
const syncTicks = 20

// TestServices runs a Service and its pods under podrun serve, which must update the endpoints when the
// pod changes. After the deletion, no leftovers of the Service may remain.
func TestServices(t *testing.T) {
	r := newRig(t)
	if err := os.Mkdir(filepath.Join(r.dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("shop.yaml", fmt.Sprintf(shopText, imageName, r.nodePort))
	s := r.serve(bundle)
	r.until("serve is ready", func() bool {
		_, sent := s.texts()
		return strings.Contains(sent, "READY=1")
	})
	r.must("apply", "shop.yaml")
	r.isReady("True")
	ip := r.must("get", "svc", "web", "-o", "jsonpath={.spec.clusterIP}")
	virtual, node := net.JoinHostPort(ip, "80"), fmt.Sprintf("127.0.0.1:%d", r.nodePort)
	r.serves(virtual)
	r.serves(node)
	hosts := r.must("exec", "client", "--", "busybox", "cat", "/etc/hosts")
	if want := ip + "\tweb.default.svc.cluster.local\tweb.default.svc\tweb.default\tweb\n"; !strings.Contains(hosts, want) {
		t.Errorf("the hosts file lacks %q:\n%s", want, hosts)
	}
	const request = `printf 'GET / HTTP/1.0\r\n\r\n' | busybox nc %s 80`
	if out := r.must("exec", "client", "--", "sh", "-c", fmt.Sprintf(request, ip)); !strings.HasSuffix(out, "hello\n") {
		t.Errorf("the client pod received %q", out)
	}

	r.write("taken.yaml", strings.Replace(fmt.Sprintf(podText, imageName, r.nodePort), "{name: web}", "{name: taken}", 1))
	r.fails(122, "is taken by the node port of Service default/web", "apply", "taken.yaml")

	// A node port on which a process listens.
	used, listener := 0, net.Listener(nil)
	for port := 30000; listener == nil && port <= 32767; port++ {
		if port == r.nodePort {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			used, listener = port, l
		}
	}
	r.write("used.yaml", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: used}\nspec: {type: NodePort, selector: {a: b}, ports: [{port: 80, nodePort: %d}]}\n---\n", used)+fmt.Sprintf(podText, imageName, 0))
	r.fails(122, fmt.Sprintf("spec.ports[0].nodePort: %d/TCP is in use by process %d", used, os.Getpid()), "apply", "used.yaml")
	_ = listener.Close()

	// A change of the readiness.
	r.must("exec", "web", "--", "busybox", "rm", "/d/ready")
	r.isReady("False")
	r.refuses(virtual)
	r.refuses(node)
	r.must("exec", "web", "--", "busybox", "touch", "/d/ready")
	r.isReady("True")
	r.serves(virtual)

	// A restart of the container.
	r.killPID(r.podPID())
	r.until("the container has been restarted", func() bool {
		return r.must("get", "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}") == "1"
	})
	r.isReady("True")
	r.serves(virtual)
	r.serves(node)

	r.must("delete", "-f", "shop.yaml")
	r.hasNoService()
}

// TestJobsWithServices runs a CronJob and a Job that connect to a Service, all in one file of podrun serve. The
// removal of the file must leave nothing behind.
func TestJobsWithServices(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	if err := os.Mkdir(filepath.Join(r.dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
	const client = `{spec: {restartPolicy: Never, containers: [{name: c, image: %[1]s, command: [sh, -c, "printf 'GET / HTTP/1.0\r\n\r\n' | busybox nc web 80 | busybox tail -n 1 | busybox grep hello"]}]}}`
	r.write("manifests/shop.yaml", fmt.Sprintf(shopText, imageName, r.nodePort)+fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata: {name: three}
spec: {completions: 3, backoffLimit: 20, template: `+client+`}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: often}
spec: {schedule: '@every 1s', jobTemplate: {spec: {backoffLimit: 20, template: `+client+`}}}
`, imageName))
	s := r.serve(bundle)
	r.until("the Job has ended", func() bool {
		out, err := r.run(bundle, "get", "job", "three", "-o", "jsonpath={.status.succeeded}")
		return err == nil && out == "3"
	})
	if out := r.must("logs", "job/three"); !strings.Contains(out, "hello") {
		t.Errorf("the Job received %q", out)
	}
	r.until("a Job of the CronJob has ended", func() bool {
		out, err := r.run(bundle, "get", "cronjob", "often", "-o", "jsonpath={.status.lastSuccessfulTime}")
		return err == nil && out != ""
	})
	if err := os.Remove(filepath.Join(r.dir, "manifests", "shop.yaml")); err != nil {
		t.Fatal(err)
	}
	r.until("everything is removed", func() bool {
		out, err := r.run(bundle, "get", "all")
		return err == nil && strings.Contains(out, "no objects found")
	})
	s.stop()
	r.must("gc")
	r.hasNoService()
}

// get sends a request, and returns the last line of the response.
func get(address string) (string, error) {
	c, err := net.DialTimeout("tcp", address, 30*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	last := ""
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		last = lines.Text()
	}
	return last, lines.Err()
}

// isReady waits until the condition Ready of the pod web has the given status. On a busy machine, a probe may
// take longer.
func (r *rig) isReady(status string) {
	r.Helper()
	r.until("Ready of the pod is "+status, func() bool {
		return r.must("get", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`) == status
	})
}

// serves waits until an address of the Service responds.
func (r *rig) serves(address string) {
	r.Helper()
	r.eventually(address, "want the pod's answer", func(answer string, err error) bool { return err == nil && answer == "hello" })
}

// refuses waits until an address of the Service refuses connections, because it has no endpoint.
func (r *rig) refuses(address string) {
	r.Helper()
	r.eventually(address, "want a refusal", func(_ string, err error) bool { return err != nil && strings.Contains(err.Error(), "refused") })
}

func (r *rig) eventually(address, want string, holds func(string, error) bool) {
	r.Helper()
	ctx, cancel := patience.Context(r.Context(), syncTicks)
	defer cancel()
	var answer string
	var err error
	if late := patience.Until(ctx, func() bool { answer, err = get(address); return holds(answer, err) }); late != nil {
		r.Fatalf("%s: %q, %v: %s: %v", address, answer, err, want, late)
	}
}

func (r *rig) killPID(pid string) {
	r.Helper()
	if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
		r.Fatalf("kill %s: %v\n%s", pid, err, out)
	}
}

// hasNoService checks that no record, rule or route of a Service remains. The runtime, and therefore the
// bridge, still exist.
func (r *rig) hasNoService() {
	r.Helper()
	if left, err := filepath.Glob(filepath.Join(r.layout.RootDir, "services", "*")); err != nil || len(left) > 0 {
		r.Errorf("records are left: %v, %v", left, err)
	}
	bridge, err := netlink.LinkByName(r.layout.Bridge())
	if err != nil {
		r.Fatal(err)
	}
	const protocol = 112 // protocol number of the routes of podrun-net
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: bridge.Attrs().Index, Protocol: protocol}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil || len(routes) > 0 {
		r.Errorf("routes are left: %v, %v", routes, err)
	}
	// leavesNothing also checks for tables, but only after the removal of the runtime.
	if out, err := exec.Command("nft", "list", "tables").Output(); err == nil && strings.Contains(string(out), "podrun-services-"+r.layout.Bridge()) {
		r.Errorf("a table of nftables is left:\n%s", out)
	}
}
