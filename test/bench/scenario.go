package main

import (
	"fmt"
	"strings"
)

// scenario is a set of pods to start.
type scenario struct {
	Name     string
	Pods     []manifest
	Parallel int      // number of pods that start concurrently
	Inits    int      // init containers of each pod
	Args     []string // additional arguments of podrun apply
	// one podrun process applies a directory with all pods
	OneProcess bool
	Full       bool // all rounds, regardless of the time limit
	Readme     bool // README.md shows the figures
	Memory     bool // the peak memory of podrun is measured, too
}

// manifest is the manifest of a pod for podrun.
type manifest struct{ Name, YAML string }

func scenarios(image string) []scenario {
	return []scenario{
		{Name: "1 container", Pods: []manifest{pod("one", image, 0, 1)}, Parallel: 1, Full: true, Readme: true},
		{Name: "10 containers", Pods: []manifest{pod("ten", image, 0, 10)}, Parallel: 1, Readme: true, Memory: true},
		{Name: "10 containers in parallel", Pods: []manifest{pod("ten", image, 0, 10)}, Parallel: 1, Args: []string{"--start-order=parallel"}, Readme: true},
		{Name: "10 init containers", Pods: []manifest{pod("inits", image, 10, 1)}, Parallel: 1, Inits: 10},
		{Name: "20 pods, 4 at a time", Pods: pods(20, image), Parallel: 4},
		{Name: "a directory of 50 pods", Pods: pods(50, image), Parallel: 50, OneProcess: true, Readme: true, Memory: true},
	}
}

func pods(n int, image string) []manifest {
	var all []manifest
	for i := range n {
		all = append(all, pod(fmt.Sprintf("many-%d", i), image, 0, 1))
	}
	return all
}

// pod returns a pod with init containers that exit immediately, and containers that keep
// running.
func pod(name, image string, inits, apps int) manifest {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\nspec:\n", name, namespace)
	// The grace period is 0, because the containers' processes do not handle SIGTERM, and the
	// benchmark does not measure the termination of the pods.
	b.WriteString("  terminationGracePeriodSeconds: 0\n  restartPolicy: Never\n")
	list := func(kind, prefix, command string, n int) {
		if n > 0 {
			fmt.Fprintf(&b, "  %s:\n", kind)
		}
		for i := range n {
			fmt.Fprintf(&b, "  - name: %s-%d\n    image: %s\n    command: %s\n", prefix, i, image, command)
			b.WriteString("    resources:\n      requests: {cpu: 1m, memory: 1Mi}\n")
		}
	}
	list("initContainers", "init", `["true"]`, inits)
	list("containers", "app", `["sleep", "3600"]`, apps)
	return manifest{Name: name, YAML: b.String()}
}
