package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/bench/result"
)

// The comparison with a standalone kubelet (make bench-kubelet).
const (
	kubeletPods   = 50
	kubeletRounds = 5
	// kubeletNode is the name of its node, which it appends to the names of the pods.
	kubeletNode = "node"
)

// kubeletSettings are the settings of a standalone kubelet without an API server or HTTP server, and without
// evictions and garbage collections, which depend on the host.
const kubeletSettings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %[1]s/manifests
containerRuntimeEndpoint: unix://%[2]s
podLogsDir: %[1]s/logs
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [none]
enableServer: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
makeIPTablesUtilChains: false
maxPods: 1000
oomScoreAdj: 0
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi, nodefs.available: 0%%, imagefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.inodesFree: 0%%}
`

// starter starts a process that runs the pods of a directory. It returns a function that ends the process, and a
// channel that is closed when the process has ended.
type starter func(ctx context.Context, dir string) (end func() error, ended <-chan struct{}, err error)

// benchKubelet measures podrun serve and a standalone kubelet on the runtime of the environment.
func benchKubelet(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &podrun{name: "podrun", dir: dir}
	if p.path, err = copyBinary(o.podrun, dir); err != nil {
		return err
	}
	return run(ctx, []section{{"kubelet", false, func(ctx context.Context) ([]result.Row, error) {
		return measureKubelet(ctx, p, o, o.endpoint)
	}}}, o, nil)
}

// measureKubelet measures the time until all pods of a directory are running, alternately with podrun serve and
// with a kubelet. Each of them starts as at boot: the files are present, and no pod is running.
func measureKubelet(ctx context.Context, p *podrun, o options, socket string) (_ []result.Row, err error) {
	client, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	restore, err := saveState()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	boots := 0
	booted := func(name string, start starter) contender {
		return contender{name: name, run: func() (time.Duration, error) {
			boots++
			return boot(ctx, client, start, filepath.Join(p.dir, fmt.Sprintf("boot-%d", boots)), o.image)
		}}
	}
	// The warm-up pulls the image.
	all, err := o.interleave(ctx, min(o.pairs, kubeletRounds), booted("podrun serve", serveStarter(p, socket)),
		booted("kubelet", kubeletStarter(o.kubelet, socket, "/"+filepath.Base(p.dir))))
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow(fmt.Sprintf("boot of %d pods, against a kubelet", kubeletPods), all)}, nil
}

// boot writes the manifests, starts the program, and returns the time until all pods are running. It then
// removes the pods.
func boot(ctx context.Context, client *runtimeClient, start starter, dir, image string) (took time.Duration, err error) {
	manifests := filepath.Join(dir, "manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		return 0, err
	}
	for i := range kubeletPods {
		m := pod(fmt.Sprintf("boot-%d", i), image, 0, 1)
		m.YAML = strings.Replace(m.YAML, "restartPolicy: Never", "restartPolicy: Always", 1)
		if err := os.WriteFile(filepath.Join(manifests, m.Name+".yaml"), []byte(m.YAML), 0o600); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	end, ended, err := start(ctx, dir)
	if err != nil {
		return 0, err
	}
	err = until(ctx, startLimit, slowPoll, fmt.Sprintf("that %d containers run", kubeletPods), func() (bool, error) {
		select {
		case <-ended:
			return false, errors.New("the program has ended")
		default:
		}
		list, err := client.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace}}})
		return len(list.GetContainers()) == kubeletPods, err
	})
	took = time.Since(begin)
	return took, errors.Join(err, end())
}

// serveStarter starts podrun serve. The function end deletes the pods.
func serveStarter(p *podrun, socket string) starter {
	return func(ctx context.Context, dir string) (func() error, <-chan struct{}, error) {
		s := &served{podrun: p, dir: dir, manifests: filepath.Join(dir, "manifests")}
		err := s.start(socket)
		return func() error { return s.remove(ctx) }, s.ended, err
	}
}

// kubeletStarter starts a kubelet. The function end kills the kubelet, because it does not remove its pods, and
// removes the objects that it created. The argument group is the kubelet's cgroup root. It must be separate, because
// a kubelet kills processes that it finds in the cgroups of pods.
func kubeletStarter(program, socket, group string) starter {
	return func(ctx context.Context, dir string) (func() error, <-chan struct{}, error) {
		k := &standaloneKubelet{socket: socket, dir: dir, group: group, ended: make(chan struct{})}
		return func() error { return k.remove(ctx) }, k.ended, k.start(program)
	}
}

// standaloneKubelet is a running kubelet.
type standaloneKubelet struct {
	socket, dir, group string
	cmd                *exec.Cmd
	log                *os.File // closed
	ended              chan struct{}
}

func (k *standaloneKubelet) start(program string) error {
	settings := filepath.Join(k.dir, "kubelet.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, kubeletSettings, k.dir, k.socket, k.group), 0o600); err != nil {
		return err
	}
	// The kubelet requires that its cgroup root exists.
	for _, mount := range cgroupMounts() {
		if err := os.MkdirAll(filepath.Join(mount, k.group), 0o755); err != nil {
			return err
		}
	}
	var err error
	if k.log, err = os.Create(filepath.Join(k.dir, "log")); err != nil {
		return err
	}
	defer k.log.Close()
	k.cmd = exec.Command(program, "--config="+settings, "--root-dir="+filepath.Join(k.dir, "kubelet"), "--hostname-override="+kubeletNode)
	k.cmd.Stdout, k.cmd.Stderr = k.log, k.log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := k.cmd.Start(); err != nil {
		return err
	}
	go func() {
		// the log contains the result
		_ = k.cmd.Wait()
		close(k.ended)
	}()
	return nil
}

// remove kills the kubelet and removes its pods, mounts, cgroups and links. It returns an error if the kubelet had
// already exited.
func (k *standaloneKubelet) remove(ctx context.Context) error {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	var errs []error
	select {
	case <-k.ended:
		data, err := os.ReadFile(k.log.Name())
		errs = append(errs, fmt.Errorf("the kubelet has ended:\n%s", data[max(0, len(data)-4096):]), err)
	default:
		errs = append(errs, k.cmd.Process.Kill())
		<-k.ended
	}
	errs = append(errs, removePods(fresh, k.socket))
	// A kubelet bind-mounts its root directory on itself.
	if err := unix.Unmount(filepath.Join(k.dir, "kubelet"), 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, err)
	}
	for _, mount := range cgroupMounts() {
		errs = append(errs, removeGroups(filepath.Join(mount, k.group)))
	}
	links, err := filepath.Glob("/var/log/containers/*_" + namespace + "_*.log")
	errs = append(errs, err)
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, k.dir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}

// removePods removes all pods of the bench from the runtime.
func removePods(ctx context.Context, socket string) error {
	client, err := dial(socket)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.namespace": namespace}}})
	if err != nil {
		return err
	}
	return atATime(8, len(list.Items), func(i int) error { return removeSandbox(ctx, client, list.Items[i].Id) })
}

// cgroupMounts returns the mounts of cgroup hierarchies.
func cgroupMounts() []string {
	if found, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs"); len(found) > 0 {
		for i := range found {
			found[i] = filepath.Dir(found[i])
		}
		return found
	}
	return []string{"/sys/fs/cgroup"}
}

// removeGroups removes a cgroup with its children.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeGroups(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, os.Remove(dir))...)
}

// saveState returns a function that restores the state of the host that kubelets change outside of their
// directories.
func saveState() (restore func() error, err error) {
	values := map[string]int{}
	kernel := sysctl.New()
	for _, name := range []string{sysctl.VMOvercommitMemory, sysctl.VMPanicOnOOM, sysctl.KernelPanic, sysctl.KernelPanicOnOops, sysctl.RootMaxKeys, sysctl.RootMaxBytes} {
		if values[name], err = kernel.GetSysctl(name); err != nil {
			return nil, err
		}
	}
	// kubeletDir is the directory of the device plugins, regardless of --root-dir.
	const kubeletDir = "/var/lib/kubelet"
	_, err = os.Lstat(kubeletDir)
	created := errors.Is(err, fs.ErrNotExist)
	return func() error {
		var errs []error
		for name, value := range values {
			errs = append(errs, kernel.SetSysctl(name, value))
		}
		if created {
			errs = append(errs, os.RemoveAll(kubeletDir))
		}
		return errors.Join(errs...)
	}, nil
}
