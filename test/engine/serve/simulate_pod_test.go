package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/engine/rig"
)

// simPod is a pod that a file or command defines.
type simPod struct {
	policy            string
	image, args, apps int
	init, side, probe bool
	// true if the pod has a volume of a ConfigMap, and restarts when the ConfigMap changes
	config bool
}

func (p simPod) String() string {
	return fmt.Sprintf("%s image %d args %d apps %d init %v side %v probe %v config %v", p.policy, p.image, p.args, p.apps, p.init, p.side, p.probe, p.config)
}

// restarts reports whether a container of the pod is restarted after an exit code.
func (p simPod) restarts(name string, code int32) bool {
	switch {
	case name == "side":
		return true
	case name == "init":
		return code != 0 && p.policy != "Never"
	}
	return p.policy == "Always" || p.policy == "OnFailure" && code != 0
}

// text returns the manifest.
func (p simPod) text(name string) string {
	var spec []string
	if p.init || p.side {
		spec = append(spec, "initContainers:")
	}
	if p.side {
		spec = append(spec, "- {name: side, image: registry.example/web:1, restartPolicy: Always}")
	}
	if p.init {
		spec = append(spec, "- {name: init, image: registry.example/setup:1}")
	}
	spec = append(spec, "terminationGracePeriodSeconds: 5", "containers:")
	for i := range p.apps {
		c := fmt.Sprintf(`- {name: a%d, image: registry.example/app:%d, args: ["%d"]`, i, p.image, p.args)
		if p.probe && i == 0 {
			c += ", livenessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 3}"
		}
		if p.config {
			c += ", volumeMounts: [{name: config, mountPath: /config}]"
		}
		spec = append(spec, c+"}")
	}
	if p.config {
		spec = append(spec, "volumes: [{name: config, configMap: {name: "+name+"}}]")
	}
	text := rig.PodText(name, p.policy, spec...)
	if p.config {
		text = strings.Replace(text, "{name: "+name+"}", "{name: "+name+`, annotations: {podrun.dev/restart-on-change: "true"}}`, 1)
	}
	return text
}

// spec returns a random pod.
func (s *simulation) spec() simPod {
	coin := func(n int) bool { return s.rand.IntN(n) == 0 }
	return simPod{policy: []string{"Always", "Always", "OnFailure", "Never"}[s.rand.IntN(4)], image: 1 + s.rand.IntN(2), args: s.rand.IntN(1000),
		apps: 1 + s.rand.IntN(2), init: coin(3), side: coin(3), probe: coin(2), config: coin(3)}
}

func (s *simulation) texts(sl *slot, spec simPod) []string {
	texts := []string{spec.text(sl.name)}
	if spec.config {
		texts = append(texts, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: \"%d\"}", sl.name, sl.version))
	}
	return texts
}

// behaviors returns the runs of a container. Each run exits by itself after seconds, minutes or
// hours.
func (s *simulation) behaviors(name string) []critest.Behavior {
	var out []critest.Behavior
	for range 4000 {
		b := critest.Behavior{After: time.Duration(1+s.rand.IntN(30)) * time.Second}
		switch n := s.rand.IntN(10); {
		case name == "init":
		case n < 4:
			b.After = time.Duration(1+s.rand.IntN(9)) * time.Minute
		case n < 7:
			b.After = time.Duration(10+s.rand.IntN(180)) * time.Minute
		}
		b.After += time.Duration(s.rand.IntN(1000)) * time.Millisecond
		if name != "init" && s.rand.IntN(2) == 0 || s.rand.IntN(7) == 0 {
			b.ExitCode = int32(1 + s.rand.IntN(3))
		}
		out = append(out, b)
	}
	return out
}
