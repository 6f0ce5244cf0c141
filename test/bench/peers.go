package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/test/bench/result"
)

// peer is another program that can run pods, or equivalent containers.
type peer struct {
	name string
	more bool // as in section
	pods bool // it can also run several containers and several pods
	// root is the root directory of the program, if that is not the host's
	root    string
	env     []string
	prepare []string // the command that imports the image
	start   func(manifest string) []string
	remove  func(manifest string) []string
}

// podmanSettings are for hosts without CAP_SYS_RESOURCE, where podman must not raise limits. podman
// uses runc, like the bench's containerd, because crun, Debian's default, does not start containers
// with hybrid cgroups.
const podmanSettings = "[containers]\ndefault_ulimits = []\n[engine]\nruntime = \"runc\"\n"

// podman5Root is the variable with the directory of hack/podman5.
const podman5Root = "PODRUN_TEST_PODMAN5"

// peers returns the peers that are installed. It writes their settings to dir.
func peers(o options, dir string) ([]peer, error) {
	const name = "podrun-bench-peer"
	settings := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(settings, []byte(podmanSettings), 0o600); err != nil {
		return nil, err
	}
	podman := peer{name: "podman kube play", pods: true, env: []string{"CONTAINERS_CONF=" + settings}, prepare: []string{"podman", "pull", "--tls-verify=false", o.image},
		start:  func(m string) []string { return []string{"podman", "kube", "play", "--tls-verify=false", m} },
		remove: func(m string) []string { return []string{"podman", "kube", "down", m} }}
	podman5 := podman
	podman5.name, podman5.root, podman5.env = "podman 5 kube play", os.Getenv(podman5Root), []string{"PODMAN_IGNORE_CGROUPSV1_WARNING=1"}
	nerdctl := peer{name: "nerdctl run", more: true,
		start: func(string) []string {
			return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "run", "-d", "--pull=never", "--name", name, o.image, "sleep", "3600"}
		},
		remove: func(string) []string {
			return []string{"nerdctl", "--address", o.endpoint, "-n", "k8s.io", "rm", "-f", name}
		}}
	var out []peer
	for _, p := range []peer{podman, nerdctl} {
		program := p.start("")[0]
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s is not installed: this run does not measure it\n", program)
			continue
		}
		out = append(out, p)
	}
	if podman5.root == "" {
		fmt.Fprintf(os.Stderr, "bench: %s is not set: this run does not measure podman 5; hack/podman5 installs it\n", podman5Root)
		return out, nil
	}
	return append(out, podman5), nil
}

// peerScenarios are the pods that peers start. Each peer starts the first one.
func peerScenarios(image string) []scenario {
	return []scenario{
		{Name: "1 container", Pods: []manifest{pod("peer", image, 0, 1)}, Parallel: 1, Full: true},
		{Name: "10 containers", Pods: []manifest{pod("peer-ten", image, 0, 10)}, Parallel: 1},
		{Name: "20 pods of one command", Pods: pods(20, image), Parallel: 20, OneProcess: true},
	}
}

// sections returns the sections of a peer.
func (other peer) sections(p *podrun, o options) []section {
	var out []section
	for i, s := range peerScenarios(o.image) {
		if i > 0 && !other.pods {
			break
		}
		name := other.name
		if i > 0 {
			name += ", " + s.Name
		}
		out = append(out, section{name, other.more || i > 0, func(ctx context.Context) ([]result.Row, error) { return measurePeer(ctx, p, o, other, s, "") }})
	}
	return out
}

// command returns a contender that runs a command of the peer.
func (other peer) command(ctx context.Context, args []string) contender {
	if other.root != "" {
		args = append([]string{"chroot", other.root}, args...)
	}
	return (&podrun{name: other.name, path: args[0], env: other.env}).timed(ctx, args[1:]...)
}

// write writes the pods of a scenario into one file, and returns its path for the peer, and a function that removes it.
func (other peer) write(s scenario, dir string) (path string, remove func() error, err error) {
	if other.root != "" {
		dir = filepath.Join(other.root, "tmp")
	}
	file, err := os.CreateTemp(dir, "podrun-bench-*.yaml")
	if err != nil {
		return "", nil, err
	}
	for _, m := range s.Pods {
		_, failed := file.WriteString("---\n" + m.YAML)
		err = errors.Join(err, failed)
	}
	remove = func() error { return os.Remove(file.Name()) }
	if err = errors.Join(err, file.Close()); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return "/" + strings.TrimLeft(strings.TrimPrefix(file.Name(), other.root), "/"), remove, nil
}

// measurePeer compares the start of pods by podrun with their start by a peer. The prefix is that of the row's
// name.
func measurePeer(ctx context.Context, p *podrun, o options, other peer, s scenario, prefix string) (_ []result.Row, err error) {
	path, remove, err := other.write(s, p.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if other.prepare != nil {
		if _, err := other.command(ctx, other.prepare).run(); err != nil {
			return nil, err
		}
	}
	theirs := other.command(ctx, other.start(path))
	theirs.after = func() error {
		_, err := other.command(ctx, other.remove(path)).run()
		return err
	}
	if s.Full {
		o.limit = noLimit
	}
	all, err := o.interleave(ctx, o.pairs, p.contenders(func(p *podrun) contender { return p.starter(ctx, s, o.endpoint) }, theirs)...)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow(prefix+"wall, "+s.Name+", against "+other.name, all)}, nil
}
