package main

import (
	"fmt"
	"strings"
)

// subject is a container that the model judges.
type subject struct {
	pod, container string
	policy         string // "Always", "OnFailure" or "Never"
	// the expected number of starts; 0 if the back-off determines it
	starts int
}

// soakPod is a pod of the soak.
type soakPod struct {
	name, yaml string
	subjects   []subject
}

// Scripts of containers. Each container writes to its own file when it starts and ends. It records
// the machine's uptime, which neither podrun nor the runtime can change.
const (
	noteStart = `read u _ </proc/uptime; echo start $u >>/out/%[1]s; `
	noteEnd   = `read u _ </proc/uptime; echo end $u $code >>/out/%[1]s; exit $code`
)

func staying(container string) string {
	return fmt.Sprintf(noteStart, container) + "exec sleep 1000000"
}

func exiting(container string, seconds, code int) string {
	return fmt.Sprintf(noteStart+"sleep %[2]d; code=%[3]d; "+noteEnd, container, seconds, code)
}

// failing returns a script that fails until it has been started the given number of times.
func failing(container string, starts int) string {
	return fmt.Sprintf(noteStart+`sleep 2; code=1; [ $(grep -c start /out/%[1]s) -lt %[2]d ] || code=0; `+noteEnd, container, starts)
}

// soakPods returns n pods. Their containers write their records below dir.
func soakPods(n int, image, dir string) []soakPod {
	kinds := []func(name string, i int) soakPod{healthy, probed, withSidecar, crashing, retried, once}
	var all []soakPod
	for i := range n {
		kind := i % len(kinds)
		name := fmt.Sprintf("%s-%d", []string{"healthy", "probed", "sidecar", "crashing", "retried", "once"}[kind], i)
		p := kinds[kind](name, i)
		p.name = name
		p.yaml = strings.NewReplacer("NAME", name, "IMAGE", image, "OUT", dir+"/"+name).Replace(head + p.yaml)
		for j := range p.subjects {
			p.subjects[j].pod = name
		}
		all = append(all, p)
	}
	return all
}

const head = `apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: ` + namespace + `}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: out, hostPath: {path: OUT, type: DirectoryOrCreate}}, {name: scratch, emptyDir: {}}]
`

// container returns a container as an entry of a list.
func container(name, script, more string) string {
	return fmt.Sprintf("  - name: %s\n    image: IMAGE\n    command: [sh, -c, '%s']\n    volumeMounts: [{name: out, mountPath: /out}, {name: scratch, mountPath: /scratch}]\n    resources: {requests: {cpu: 1m, memory: 1Mi}}\n%s",
		name, script, more)
}

func healthy(string, int) soakPod {
	return soakPod{yaml: "  containers:\n" + container("app", staying("app"), ""),
		subjects: []subject{{container: "app", policy: "Always", starts: 1}}}
}

func probed(string, int) soakPod {
	const probes = "    startupProbe: {exec: {command: [\"true\"]}, periodSeconds: 1}\n" +
		"    livenessProbe: {exec: {command: [test, -e, /out/app]}, periodSeconds: 2, failureThreshold: 2, timeoutSeconds: 10}\n" +
		"    readinessProbe: {exec: {command: [\"true\"]}, periodSeconds: 3, timeoutSeconds: 10}\n"
	return soakPod{yaml: "  containers:\n" + container("app", staying("app"), probes),
		subjects: []subject{{container: "app", policy: "Always", starts: 1}}}
}

func withSidecar(string, int) soakPod {
	return soakPod{
		yaml: "  initContainers:\n" + container("first", exiting("first", 1, 0), "") + container("sidecar", staying("sidecar"), "    restartPolicy: Always\n") +
			"  containers:\n" + container("app", staying("app"), ""),
		subjects: []subject{{container: "first", policy: "Never", starts: 1}, {container: "sidecar", policy: "Always", starts: 1},
			{container: "app", policy: "Always", starts: 1}}}
}

// crashing returns a pod with two containers that exit at different times.
func crashing(_ string, i int) soakPod {
	return soakPod{
		yaml:     "  containers:\n" + container("crash", exiting("crash", 3+i%7, 1), "") + container("end", exiting("end", 7+i%5, 0), ""),
		subjects: []subject{{container: "crash", policy: "Always"}, {container: "end", policy: "Always"}}}
}

func retried(string, int) soakPod {
	return soakPod{yaml: "  restartPolicy: OnFailure\n  containers:\n" + container("app", failing("app", 3), ""),
		subjects: []subject{{container: "app", policy: "OnFailure", starts: 3}}}
}

func once(string, int) soakPod {
	return soakPod{yaml: "  restartPolicy: Never\n  containers:\n" + container("app", exiting("app", 15, 0), ""),
		subjects: []subject{{container: "app", policy: "Never", starts: 1}}}
}
