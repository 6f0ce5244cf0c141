package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/test/bench/result"
)

// standardPlugins is the directory of Debian's containernetworking-plugins.
const standardPlugins = "/usr/lib/cni"

// standardBridge is the bridge of the standard plugins.
const standardBridge = "podrun-bench0"

// standardNetwork configures the standard plugins to do the same as podrun-net.
const standardNetwork = `{"cniVersion": "1.0.0", "name": "podrun-bench", "plugins": [
  {"type": "bridge", "bridge": "` + standardBridge + `", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
    "type": "host-local", "dataDir": "%s", "ranges": [[{"subnet": "10.214.77.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}},
  {"type": "firewall"}]}
`

// bundleRig contains a podrun-bundle with its embedded runtime, and a second instance of the same containerd that
// uses the standard network plugins.
type bundleRig struct {
	own      *podrun // with the embedded runtime
	standard *podrun // the same binary with the second containerd

	layout   embedded.Layout
	short    string // directory of sockets; its path is short because containerd limits the length of a socket's path
	daemon   *exec.Cmd
	unpacked string // directory of the runtime's programs
}

// benchBundle measures podrun-bundle with its embedded runtime (make bench-bundle). If o.kubelet is set, it compares
// podrun serve with this kubelet.
func benchBundle(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	debian := o.endpoint
	for _, name := range []string{"CONTAINER_RUNTIME_ENDPOINT", "PODRUN_CONTAINER_RUNTIME_ENDPOINT"} {
		os.Unsetenv(name)
	}
	o.endpoint = ""
	b, err := newBundleRig(ctx, o, dir)
	defer func() { err = errors.Join(err, b.remove(ctx)) }()
	if err != nil {
		return err
	}
	all := []section{{"network", false, func(ctx context.Context) ([]result.Row, error) { return b.measureNetwork(ctx, o) }}}
	installed, err := peers(o, dir)
	if err != nil {
		return err
	}
	for _, peer := range installed {
		if peer.pods {
			all = append(all, section{peer.name, false, func(ctx context.Context) ([]result.Row, error) {
				return measurePeer(ctx, b.own, o, peer, peerScenarios(o.image)[0], "bundle: ")
			}})
		}
	}
	all = append(all, section{"debian", false, func(ctx context.Context) ([]result.Row, error) { return b.measureDebian(ctx, o, debian) }})
	if o.kubelet != "" {
		all = []section{{"kubelet", false, func(ctx context.Context) ([]result.Row, error) {
			return measureKubelet(ctx, b.own, o, b.layout.Socket())
		}}}
	}
	return run(ctx, all, o, nil)
}

// newBundleRig starts both runtimes. The caller must call remove, even after an error.
func newBundleRig(ctx context.Context, o options, dir string) (*bundleRig, error) {
	b := &bundleRig{layout: embedded.ReadLayout(filepath.Join(dir, "root"))}
	binary, err := copyBinary(o.podrun, dir)
	if err != nil {
		return b, err
	}
	if b.short, err = os.MkdirTemp("/run", "podrun-bench-"); err != nil {
		return b, err
	}
	settings := []string{"PODRUN_CONFIG=", "PODRUN_EVICTION_HARD=", "PODRUN_POD_LOGS_DIR=" + filepath.Join(dir, "logs"), "PODRUN_CONTAINER_LOGS_DIR=" + filepath.Join(dir, "links")}
	b.own = &podrun{name: "podrun", path: binary, dir: dir, env: append([]string{"PODRUN_RUNTIME=embedded", "PODRUN_ROOT_DIR=" + b.layout.RootDir}, settings...)}
	b.standard = &podrun{name: "standard plugins", path: binary, dir: dir, env: append([]string{"PODRUN_CONTAINER_RUNTIME_ENDPOINT=unix://" + b.socket(), "PODRUN_ROOT_DIR=" + filepath.Join(dir, "standard")}, settings...)}
	// This starts the embedded runtime, and pulls the image.
	if _, err := b.startAndDelete(ctx, b.own, pod("first", o.image, 0, 1)); err != nil {
		return b, err
	}
	return b, b.startStandard(ctx, dir)
}

func (b *bundleRig) socket() string { return filepath.Join(b.short, "containerd.sock") }

// startStandard starts the second containerd with the configuration of the first one, but with other directories and
// network plugins.
func (b *bundleRig) startStandard(ctx context.Context, dir string) error {
	found, err := filepath.Glob(filepath.Join(b.layout.Dir(), "*", "bin", "containerd"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d embedded runtimes in %s, %w", len(found), b.layout.Dir(), err)
	}
	b.unpacked = filepath.Dir(filepath.Dir(found[0]))
	config, err := os.ReadFile(b.layout.Config())
	if err != nil {
		return err
	}
	network, file := filepath.Join(dir, "net.d"), filepath.Join(dir, "standard.toml")
	text := strings.NewReplacer(
		b.layout.Containerd(), filepath.Join(dir, "containerd"),
		b.layout.State(), b.short,
		filepath.Join(b.unpacked, "cni"), standardPlugins,
		b.layout.NetworkDir(), network,
	).Replace(string(config))
	if err := errors.Join(os.MkdirAll(network, 0o700), os.WriteFile(file, []byte(text), 0o600),
		os.WriteFile(filepath.Join(network, "10-bench.conflist"), fmt.Appendf(nil, standardNetwork, filepath.Join(dir, "addresses")), 0o600)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "containerd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.daemon = exec.Command(found[0], "--config", file)
	b.daemon.Env = embedded.Environment(b.layout, filepath.Base(b.unpacked), "", os.Environ())
	b.daemon.Stdout, b.daemon.Stderr = log, log
	b.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := b.daemon.Start(); err != nil {
		b.daemon = nil
		return err
	}
	if err := until(ctx, reactLimit, slowPoll, "for the second containerd", func() (bool, error) {
		_, err := os.Stat(b.socket())
		return err == nil, nil
	}); err != nil {
		return err
	}
	return b.loadPause(ctx)
}

// loadPause loads the sandbox image into the second containerd. It does not use podrun image load, which refuses the
// name of this image.
func (b *bundleRig) loadPause(ctx context.Context) error {
	file, err := os.Open(filepath.Join(b.unpacked, "images", "pause.tar"))
	if err != nil {
		return err
	}
	defer file.Close()
	image, err := archive.Read(ctx, file)
	if err != nil {
		return err
	}
	if err := image.AddDigestNames(); err != nil {
		return err
	}
	client, err := dial(b.socket())
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = image.Load(ctx, client)
	return err
}

// startAndDelete returns the total time that podrun takes to start a pod and then delete it.
func (b *bundleRig) startAndDelete(ctx context.Context, p *podrun, m manifest) (time.Duration, error) {
	_, start, err := p.apply(ctx, scenario{Name: m.Name, Pods: []manifest{m}, Parallel: 1}, []string{""})
	if err != nil {
		return 0, errors.Join(err, p.deleteAll(ctx))
	}
	deleted, err := p.run(ctx, "delete", m.Name, "-n", namespace)
	return start + deleted.wall(), err
}

// measureNetwork compares the time that podrun-net adds to a pod with hostNetwork with the time that the standard
// plugins add.
func (b *bundleRig) measureNetwork(ctx context.Context, o options) ([]result.Row, error) {
	host := pod("host", o.image, 0, 1)
	host.YAML = strings.Replace(host.YAML, "spec:\n", "spec:\n  hostNetwork: true\n", 1)
	cycle := func(name string, p *podrun, m manifest) contender {
		return contender{name: name, run: func() (time.Duration, error) { return b.startAndDelete(ctx, p, m) }}
	}
	bridged := pod("bridged", o.image, 0, 1)
	all, err := o.interleave(ctx, o.pairs, cycle("podrun-net", b.own, bridged), cycle("standard plugins", b.standard, bridged), cycle("hostNetwork", b.own, host))
	if err != nil {
		return nil, err
	}
	own, standard, without := all[0].took, all[1].took, all[2].took
	return []result.Row{
		result.NewRow("bundle: 1 pod and its delete, against the standard plugins", result.Ratio, result.Ratios(own, standard), nil, programs(all)...),
		result.NewRow("bundle: time that podrun-net adds", "ms", result.Differences(own, without), nil),
		result.NewRow("bundle: time that the standard plugins add", "ms", result.Differences(standard, without), nil),
		// A single round may have a standard network that adds almost nothing, so that its ratio has no meaning.
		result.NewRow("bundle: network", result.Ratio, numbers{(own.median() - without.median()) / (standard.median() - without.median())}, nil),
	}, nil
}

// measureDebian compares a pod on the embedded runtime with the same pod on the containerd of the tests, which is that
// of Debian with Debian's runc and the standard plugins. The same binary starts both.
func (b *bundleRig) measureDebian(ctx context.Context, o options, socket string) ([]result.Row, error) {
	debian := *b.standard
	debian.name, debian.env = "Debian's containerd", slices.Clone(b.standard.env)
	debian.env = append(debian.env, "PODRUN_CONTAINER_RUNTIME_ENDPOINT=unix://"+socket, "PODRUN_ROOT_DIR="+filepath.Join(b.own.dir, "debian"))
	s := scenario{Name: "debian", Pods: []manifest{pod("one", o.image, 0, 1)}, Parallel: 1}
	o.limit = noLimit
	var contenders []contender
	for _, p := range []*podrun{b.own, &debian} {
		contenders = append(contenders, p.starter(ctx, s, ""))
	}
	all, err := o.interleave(ctx, o.pairs, contenders...)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow("bundle: wall, 1 container, against Debian's containerd", all)}, nil
}

// remove removes the pods, both runtimes, and the standard network.
func (b *bundleRig) remove(ctx context.Context) error {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	var errs []error
	if b.daemon != nil {
		errs = append(errs, b.standard.deleteAll(fresh), b.daemon.Process.Signal(syscall.SIGTERM))
		_ = b.daemon.Wait() // containerd exits with 0 or the signal
		// The chains of the plugin firewall remain, because other networks of the host use the same
		// chains.
		_ = exec.CommandContext(fresh, "ip", "link", "delete", standardBridge).Run() // the bridge may not exist
	}
	if b.own != nil {
		_, err := b.own.run(fresh, "runtime", "down", "--force")
		errs = append(errs, err)
	}
	if b.short != "" {
		errs = append(errs, os.RemoveAll(b.short))
	}
	return errors.Join(errs...)
}
