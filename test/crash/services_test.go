package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// serviceCommands are the commands of TestCrashSweepOfServices.
var serviceCommands = []string{"apply" + withService, "delete" + withService, "serve" + withService, "scale-up", "scale-down"}

// withService marks commands on a pod whose file also has a Service. The sweep kills them only at steps that
// concern the Service. On the network of the tests' runtime, a Service has names, but no rules
// (test/embedded.TestKilledAtServiceSteps has rules).
const withService = "-service"

// workload is the state before the commands scale-up and scale-down: a Deployment.
const workload = "workload"

// scales returns the numbers of pods before and after a command.
func scales(command string) (from, to int, ok bool) {
	switch command {
	case "scale-up":
		return 1, 2, true
	case "scale-down":
		return 2, 1, true
	}
	return 0, 0, false
}

// tries reports whether the sweep kills a command at a step. A pod's start and removal have their own cells.
func (h *host) tries(step string) bool {
	var prefixes []string
	switch {
	case h.service:
		prefixes = []string{"service/", "services/", "file/names.json/", "file/crash_" + anyPod + "-service/"}
	case h.rollback:
		prefixes = []string{"file/crash_" + anyPod + "/", "file/pod.yaml/", "cri/RunPodSandbox/", "cri/StartContainer/", "cri/StopContainer/", "cri/RemovePodSandbox/", "remove/"}
	case h.scaled > 0:
		prefixes = []string{"workload/", "file/crash_" + anyPod + "/", "cri/RunPodSandbox/", "cri/StartContainer/", "cri/StopContainer/", "cri/RemovePodSandbox/", "remove/"}
	default:
		return true
	}
	for _, p := range prefixes {
		if strings.HasPrefix(step, p) && !strings.Contains(step, "@") {
			return true
		}
	}
	return false
}

// withService adds a Service that selects the pod to the text of a manifest, and makes the pod use the names of
// Services.
func (h *host) withService(text string) string {
	text = strings.Replace(text, "dnsPolicy: Default", "dnsPolicy: ClusterFirst", 1)
	return strings.Replace(text, "namespace: crash}", "namespace: crash, labels: {app: "+h.pod+"}}", 1) + fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %s-service, namespace: crash}
spec: {selector: {app: %[1]s}, ports: [{port: 80}]}
`, h.pod)
}

// named returns an error unless the hosts file of the pod has the name of the Service.
func (h *host) named() error {
	files, err := filepath.Glob(filepath.Join(h.dir, "root", "pods", "*", "etc-hosts"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%d hosts files instead of one", len(files))
	}
	text, err := os.ReadFile(files[0])
	if name := h.pod + "-service.crash.svc"; err == nil && !strings.Contains(string(text), name) {
		err = fmt.Errorf("the hosts file lacks %s: %s", name, text)
	}
	return err
}

// deployment writes the file of a Deployment with n pods, which are like those of manifest.
func (h *host) deployment(n int) error {
	const text = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: crash, annotations: {podrun.dev/replicas: honour}}
spec:
  replicas: %d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      dnsPolicy: Default
      terminationGracePeriodSeconds: 2
      containers:
      - {name: app, image: %[3]s, command: [sh, -c, "trap 'exit 0' TERM; sleep 600 & wait"]}
      - {name: next, image: %[3]s, command: [sh, -c, "trap 'exit 0' TERM; sleep 600 & wait"]}
`
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.dir, workload+".yaml"), fmt.Appendf(nil, text, h.pod, n, os.Getenv("PODRUN_TEST_IMAGE")), 0o600)
}

// replica is the name of a pod of the Deployment.
func (h *host) replica(i int) string {
	if i == 0 {
		return h.pod
	}
	return fmt.Sprint(h.pod, "-", i)
}

// scale returns the arguments of the command that scales the Deployment.
func (h *host) scale(n int) []string {
	return []string{"scale", "deployment/" + h.pod, "--replicas=" + strconv.Itoa(n)}
}

// deletion returns the arguments of the command that deletes everything of the host.
func (h *host) deletion() []string {
	switch {
	case h.service:
		return []string{"delete", "--ignore-not-found", "-f", filepath.Join(h.dir, "one.yaml")}
	case h.scaled > 0:
		return []string{"delete", "deployment/" + h.pod}
	}
	return []string{"delete", "--all"}
}

// runsAsScaled checks that exactly the pods that the Deployment requests run, and that a scale which has
// succeeded determines their number.
func (o *outside) runsAsScaled(ctx context.Context, h *host) error {
	r := h.podrun(nil, "get", "deployment", h.pod, "-o", "jsonpath={.spec.replicas}")
	n, err := strconv.Atoi(strings.TrimSpace(r.out))
	if err != nil || n != 1 && n != 2 || h.hasScaled && n != h.scaled {
		return fmt.Errorf("get deployment: code %d: %s", r.code, r.out)
	}
	for i := range 2 {
		if i < n {
			if err = o.runs(ctx, h.replica(i)); err == nil {
				err = o.mountsAsDefined(ctx, h, h.replica(i))
			}
		} else if sandboxes, _, listed := o.sandboxes(ctx, h.replica(i)); listed != nil {
			err = listed
		} else if len(sandboxes) > 0 {
			err = fmt.Errorf("%d sandboxes of %s, which the Deployment with %d pods does not request", len(sandboxes), h.replica(i), n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
