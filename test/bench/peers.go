package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/podrun/podrun/test/bench/result"
)

// peer is another program that can run a pod with one container, or an equivalent container.
type peer struct {
	name    string
	more    bool // as in section
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
		{"podman kube play", false, []string{"CONTAINERS_CONF=" + settings}, []string{"podman", "pull", "--tls-verify=false", o.image},
			func(m string) []string { return []string{"podman", "kube", "play", "--tls-verify=false", m} },
			func(m string) []string { return []string{"podman", "kube", "down", m} }},
		{"nerdctl run", true, nil, nil,
			func(string) []string {
				return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "run", "-d", "--pull=never", "--name", name, o.image, "sleep", "3600"}
			},
			func(string) []string {
				return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "rm", "-f", name}
			}},
	}
	var out []peer
	for _, p := range all {
		program := p.start("")[0]
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed: this run does not measure it\n", program)
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

// measurePeer compares a pod's start by podrun with its start by a peer. The prefix is that of the row's
// name.
func measurePeer(ctx context.Context, p *podrun, o options, other peer, prefix string) ([]result.Row, error) {
	s := scenario{Name: "peer", Pods: []manifest{pod("peer", o.image, 0, 1)}, Parallel: 1}
	paths, err := p.write(s)
	if err != nil {
		return nil, err
	}
	command := func(args []string) contender {
		return (&podrun{name: other.name, path: args[0], env: other.env}).timed(ctx, args[1:]...)
	}
	if other.prepare != nil {
		if _, err := command(other.prepare).run(); err != nil {
			return nil, err
		}
	}
	theirs := command(other.start(paths[0]))
	theirs.after = func() error {
		_, err := command(other.remove(paths[0])).run()
		return err
	}
	o.limit = noLimit
	all, err := o.interleave(ctx, o.pairs, p.contenders(func(p *podrun) contender { return p.starter(ctx, s, o.endpoint) }, theirs)...)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow(prefix+"wall, 1 container, against "+other.name, all)}, nil
}
