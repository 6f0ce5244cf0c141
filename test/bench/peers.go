package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is another program that can run a pod with one container, or an equivalent container.
type peer struct {
	name    string
	env     []string
	prepare []string // the command that imports the image
	start   func(manifest string) []string
	remove  func(manifest string) []string
}

// podmanSettings are for hosts without CAP_SYS_RESOURCE, where podman must not raise limits. podman
// uses runc, like the bench's containerd, because crun, Debian's default, does not start containers
// with hybrid cgroups.
const podmanSettings = "[containers]\ndefault_ulimits = []\n[engine]\nruntime = \"runc\"\n"

// peers returns the peers that are installed. It writes their settings to dir.
func peers(o options, dir string) ([]peer, error) {
	const name = "podrun-bench-peer"
	settings := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(settings, []byte(podmanSettings), 0o600); err != nil {
		return nil, err
	}
	all := []peer{
		{"podman kube play", []string{"CONTAINERS_CONF=" + settings}, []string{"podman", "pull", "--tls-verify=false", o.image},
			func(m string) []string { return []string{"podman", "kube", "play", "--tls-verify=false", m} },
			func(m string) []string { return []string{"podman", "kube", "down", m} }},
		{"nerdctl run", nil, nil,
			func(string) []string {
				return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "run", "-d", "--pull=never", "--name", name, o.image, "sleep", "3600"}
			},
			func(string) []string {
				return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "rm", "-f", name}
			}},
	}
	var out []peer
	for _, p := range all {
		if _, err := exec.LookPath(p.start("")[0]); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// measurePeer compares a pod's start by podrun with its start by a peer.
func measurePeer(ctx context.Context, p *podrun, o options, other peer) (*difference, error) {
	d := &difference{Name: "1 container, against " + other.name, ratio: true}
	s := scenario{Name: "peer", Pods: []manifest{pod("peer", o.image, 0, 1)}, Parallel: 1}
	paths, err := p.write(s)
	if err != nil {
		return nil, err
	}
	run := func(args []string) (process, error) {
		r, err := (&podrun{path: args[0], env: other.env}).run(ctx, args[1:]...)
		if err != nil {
			return r, fmt.Errorf("%s: %w", other.name, err)
		}
		return r, nil
	}
	if other.prepare != nil {
		if _, err := run(other.prepare); err != nil {
			return nil, err
		}
	}
	for i := range o.rounds(o.pairs + 1) {
		_, ours, err := p.apply(ctx, s, []string{o.endpoint})
		if err := errors.Join(err, p.deleteAll(ctx)); err != nil {
			return nil, err
		}
		theirs, err := run(other.start(paths[0]))
		_, removed := run(other.remove(paths[0]))
		if err := errors.Join(err, removed); err != nil {
			return nil, err
		}
		// The first pair is only a warm-up.
		if i > 0 {
			d.add(ours, theirs.wall())
		}
	}
	return d, nil
}
