package flags

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/patience"
)

// namespace is the namespace of all objects.
const namespace = "flags"

// silence is the time after which the test interrupts a command that ends only if it is interrupted, and
// that prints nothing.
const silence = time.Second

// host is a root directory of podrun, a directory with files, and a runtime.
type host struct {
	dir    string
	bare   bool // the environment contains the settings, so that call adds no flags
	layout identity.Layout
	rt     *critest.Runtime
	stop   func()
}

// newHost returns a host without pods. The files are in its directory, which is in memory if
// possible, because podrun syncs the files that it writes.
func newHost(files map[string]string) (*host, error) {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "podrun-flags-")
	if err != nil {
		return nil, err
	}
	h := &host{dir: dir, rt: critest.New()}
	h.layout = identity.Layout{RootDir: h.path("root"), PodLogsDir: h.path("logs"), ContainerLogsDir: h.path("links")}
	for _, tag := range []string{"1", "2"} {
		h.rt.AddImage(critest.Image{Name: "registry.example/app:" + tag, Cmd: []string{"true"}})
	}
	h.rt.AddRemote(critest.Image{Name: "registry.example/far:1", Cmd: []string{"true"}})
	stays := critest.Behavior{Lines: []critest.Line{{Text: "hello"}}, Forever: true, CleanTERM: true}
	h.rt.Script("stays", stays)
	h.rt.Script("ends", critest.Behavior{Lines: []critest.Line{{Text: "hello"}}})
	for _, name := range []string{"stays", "ends"} {
		h.rt.ScriptExec(name, func([]string) *critest.Exec { return &critest.Exec{Stdout: "hello\n"} })
	}
	h.stop, err = h.rt.Serve(h.path("cri.sock"))
	for name, text := range files {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(h.path(name)), 0o755), os.WriteFile(h.path(name), []byte(text), 0o644))
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

// close ends the runtime and removes all files.
func (h *host) close() error {
	if h.stop != nil {
		h.stop()
	}
	h.rt.Close()
	return os.RemoveAll(h.dir)
}

// settings are the global flags of each call. They come before the flags that the test adds, so that
// the latter override them.
func (h *host) settings() []string {
	return []string{"--config=" + h.path("config.yaml"), "--container-runtime-endpoint=unix://" + h.path("cri.sock"),
		"--root-dir=" + h.layout.RootDir, "--pod-logs-dir=" + h.layout.PodLogsDir, "--container-logs-dir=" + h.layout.ContainerLogsDir,
		"--namespace=" + namespace, "--hostname-override=node"}
}

// result is the result of a command.
type result struct {
	code           int
	stdout, stderr string
	problem        string // a panic, or that the command did not end
}

// String returns all parts of the result.
func (r result) String() string {
	return fmt.Sprintf("exit code %d %s\nstdout: %s\nstderr: %s", r.code, r.problem, r.stdout, r.stderr)
}

// call runs a command in this process. In its arguments, @ stands for the host's directory. If blocks
// is set, the command ends only if it is interrupted: call does so after its first output, or after the
// time silence.
func (h *host) call(ctx context.Context, blocks bool, args []string) result {
	if !blocks {
		return h.callUntil(ctx, nil, args)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interrupt := func() { cancel(exit.SignalError{Signal: syscall.SIGINT}) }
	defer time.AfterFunc(silence, interrupt).Stop()
	return h.callUntil(ctx, func(string) { interrupt() }, args)
}

// callUntil runs a command, and calls written, if it is not nil, with each text that the command writes.
func (h *host) callUntil(ctx context.Context, written func(text string), args []string) result {
	stdout, stderr := output{written: written}, output{written: written}
	ended := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.problem = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			}
			r.stdout, r.stderr = stdout.String(), stderr.String()
			ended <- r
		}()
		r.code = cmd.Main(ctx, h.full(args), cmd.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, "test", time.Now())
	}()
	limit, stop := patience.Context(context.Background(), patience.OnFake)
	defer stop()
	select {
	case r := <-ended:
		return r
	case <-limit.Done():
		return result{stdout: stdout.String(), stderr: stderr.String(), problem: "did not end"}
	}
}

// full returns the arguments with the settings, which follow the name of the command.
func (h *host) full(args []string) []string {
	n := slices.IndexFunc(args, func(word string) bool { return strings.HasPrefix(word, "-") })
	if n < 0 {
		n = len(args)
	}
	var settings []string
	if !h.bare {
		settings = h.settings()
	}
	args = slices.Concat(args[:n], settings, args[n:])
	for i, word := range args {
		args[i] = strings.ReplaceAll(word, "@/", h.dir+"/")
	}
	return args
}

// addCronJob adds a CronJob, as a command does while podrun serve is running.
func (h *host) addCronJob(name string) error {
	object := &batchv1.CronJob{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"},
		Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "ends", Image: "registry.example/app:1"}}},
		}}}},
	}
	return store.WriteCronJob(h.layout, &store.CronJobRecord{CronJob: object})
}

// state maps each object to a description of its state. Objects have the same description only if no
// command has changed them.
type state map[string]string

// state reads the state of all objects, from the runtime and from the root directory.
func (h *host) state(ctx context.Context) (state, error) {
	s := state{}
	sandboxes, err := h.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := h.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	images, err := h.rt.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // of pods, by the sandbox's ID
	for _, sandbox := range sandboxes.GetItems() {
		name := "pod " + sandbox.GetMetadata().GetName()
		names[sandbox.GetId()] = name
		s[name] += fmt.Sprintf("sandbox %s %v\n", sandbox.GetId(), sandbox.GetState())
	}
	for _, c := range containers.GetContainers() {
		s[names[c.GetPodSandboxId()]] += fmt.Sprintf("container %s %v\n", c.GetId(), c.GetState())
	}
	for _, image := range images.GetImages() {
		for _, tag := range image.GetRepoTags() {
			s["image "+tag] = "present"
		}
	}
	return s, errors.Join(s.readPods(h.layout), s.readRecords(h.layout))
}

// readPods adds the checkpoints of pods.
func (s state) readPods(layout identity.Layout) error {
	checkpoints, err := filepath.Glob(layout.Pod("*").Checkpoint())
	for _, path := range checkpoints {
		data, rerr := os.ReadFile(path)
		head, _, _ := bytes.Cut(data, []byte("\n"))
		_, name, _ := identity.HeadPod(head)
		s["pod "+name] += fmt.Sprintf("checkpoint %x\n", sha256.Sum256(data))
		err = errors.Join(err, rerr)
	}
	return err
}

// readRecords adds Services, workloads, Jobs and CronJobs.
func (s state) readRecords(layout identity.Layout) error {
	var errs []error
	workloads, unreadable, err := store.ReadWorkloads(layout, namespace)
	errs = append(errs, unreadable, err)
	for _, w := range workloads {
		// The record also contains a random number, which a command that restores the record replaces.
		s["workload "+w.ID.Name] = fmt.Sprintf("%s replicas=%d deleted=%t", w.Kind, w.Replicas, w.Deleted)
	}
	for kind, dir := range map[string]string{"service": string(layout.Services()), "job": layout.Jobs(), "cronjob": layout.CronJobs()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(e.Name(), namespace+"_")
			if !ok {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			errs = append(errs, err)
			s[kind+" "+name] = fmt.Sprintf("record %x\n", sha256.Sum256(data))
		}
	}
	return errors.Join(errs...)
}

// changed returns the objects that differ, each as kind and name.
func (s state) changed(after state) []string {
	all := maps.Clone(s)
	maps.Copy(all, after)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(key string) bool { return s[key] == after[key] })
}

// output is a stream of a command, which may write to it from several goroutines.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	written func(text string) // called for each write; may be nil
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written != nil {
		o.written(string(p))
	}
	return o.text.Write(p)
}

// String returns the text that was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
