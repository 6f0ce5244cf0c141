package crash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ofSandboxes returns the result of a call of readResidue that began not before since. The lanes
// share this result.
func (o *outside) ofSandboxes(ctx context.Context, since time.Time) []string {
	o.shared.Lock()
	defer o.shared.Unlock()
	if o.residueAt.Before(since) {
		o.residueAt = time.Now()
		o.residue = o.readResidue(ctx)
	}
	return slices.Clone(o.residue)
}

// sandboxID matches the names that containerd, runc and network plugins give to objects of
// sandboxes and containers.
var sandboxID = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// readResidue lists the leftovers on the host of sandboxes and containers that the runtime does
// not know: firewall rules, addresses, results of plugins, network namespaces and interfaces,
// tasks, shims, snapshots. It also lists containers that containerd's CRI does not list.
func (o *outside) readResidue(ctx context.Context) []string {
	found := map[string]bool{}
	add := func(what, text string) {
		for _, id := range sandboxID.FindAllString(text, -1) {
			found[what+" "+id] = true
		}
	}
	id := strings.TrimPrefix(strings.Split(os.Getenv("PODRUN_CGROUP_ROOT"), "/")[1], "podruntest")
	network := "podrun-test-" + id
	rules, _ := exec.CommandContext(ctx, "iptables-save").Output()
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, network) {
			add("rule of", line)
		}
	}
	leases, _ := filepath.Glob(o.dir + "/cni/addresses/*/[0-9]*")
	for _, lease := range leases {
		text, _ := os.ReadFile(lease)
		add("lease "+filepath.Base(lease)+" of", string(text))
	}
	for what, pattern := range map[string]string{
		"bundle":         o.dir + "/state/io.containerd.runtime.v2.task/k8s.io/*", // the directories of tasks
		"runc's state":   o.dir + "/runc/k8s.io/*",
		"CRI's state":    o.dir + "/state/io.containerd.grpc.v1.cri/*/*",
		"CRI's files of": o.dir + "/containerd/io.containerd.grpc.v1.cri/*/*",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			add(what, filepath.Base(path))
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		line, _ := os.ReadFile(path)
		if !bytes.Contains(line, []byte("containerd-shim")) || !bytes.Contains(line, []byte(o.dir+"/")) {
			continue
		}
		what := "shim"
		if dir, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd")); strings.HasSuffix(dir, " (deleted)") {
			what = lostShim
		}
		add(what, strings.ReplaceAll(string(line), "\x00", " "))
	}
	if err := o.ofContainerd(ctx, add); err != nil {
		return []string{err.Error()}
	}
	results, _ := filepath.Glob("/var/lib/cni/results/" + network + "-*")
	links, _ := filepath.Glob("/sys/class/net/prt-" + id + "/lower_*")
	spaces, _ := filepath.Glob(o.dir + "/state/*/netns/*")
	known, err := o.knownIDs(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var theirs []byte
	for _, r := range results {
		if add("result of", strings.TrimPrefix(r, "/var/lib/cni/results/")); slices.ContainsFunc(known, func(id string) bool { return strings.Contains(r, id) }) {
			text, _ := os.ReadFile(r)
			theirs = append(theirs, text...)
		}
	}
	var left []string
	for what := range found {
		if !slices.ContainsFunc(known, func(id string) bool { return strings.HasSuffix(what, id) }) {
			left = append(left, what)
		}
	}
	for _, path := range slices.Concat(links, spaces) {
		if name := strings.TrimPrefix(filepath.Base(path), "lower_"); !bytes.Contains(theirs, []byte(name)) {
			left = append(left, "interface or network namespace "+name)
		}
	}
	slices.Sort(left)
	return left
}

// lostShim is a shim that containerd did not terminate, although it removed the shim's directory.
// This happens if podrun is killed while the shim starts, because containerd then cancels
// RunPodSandbox. See also containerd issue 5015. podrun cannot determine the pod of such a shim.
const lostShim = "lost shim"

// records are leftovers of a container or a sandbox in containerd 2. containerd's CRI plugin does
// not list the object, which has neither a task nor a process. The kill canceled a call, and
// containerd failed to clean up after it (containerd issue 12344). After a restart of containerd,
// its CRI plugin lists the container again, or removes it.
var records = []string{"container of containerd", "snapshot", "bundle", "runc's state"}

// splitLost removes from a list of leaks those that containerd caused: lost shims, and records of
// containers that have no other leftovers. The result lost is the number of removed leaks.
func splitLost(leaks []string) (left []string, lost int) {
	others := map[string]bool{} // IDs of objects that have other leftovers
	ids := map[string]bool{}
	split := func(leak string) (what, id string) {
		at := strings.LastIndexByte(leak, ' ')
		return leak[:max(at, 0)], leak[at+1:]
	}
	for _, l := range leaks {
		if what, id := split(l); what != lostShim && !slices.Contains(records, what) {
			others[id] = true
		}
	}
	for _, l := range leaks {
		if what, id := split(l); what == lostShim || slices.Contains(records, what) && !others[id] {
			ids[id] = true
		} else {
			left = append(left, l)
		}
	}
	return left, len(ids)
}

// ofContainerd adds the containers in containerd, with their tasks and snapshots.
func (o *outside) ofContainerd(ctx context.Context, add func(what, text string)) error {
	in := metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	containers, err := containersapi.NewContainersClient(o.conn).List(in, &containersapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, c := range containers.Containers {
		add("container of containerd", c.ID)
	}
	tasks, err := tasksapi.NewTasksClient(o.conn).List(in, &tasksapi.ListTasksRequest{})
	if err != nil {
		return err
	}
	for _, t := range tasks.Tasks {
		add("task", t.ID)
	}
	stream, err := snapshotsapi.NewSnapshotsClient(o.conn).List(in, &snapshotsapi.ListSnapshotsRequest{Snapshotter: "overlayfs"})
	for err == nil {
		var some *snapshotsapi.ListSnapshotsResponse
		if some, err = stream.Recv(); err == nil {
			for _, s := range some.Info {
				// Such snapshots belong to images, or to an image that another test is pulling.
				if s.Kind != snapshotsapi.Kind_COMMITTED && !strings.Contains(s.Name, "extract-") {
					add("snapshot", s.Name)
				}
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// knownIDs lists the IDs of all sandboxes and containers of the runtime.
func (o *outside) knownIDs(ctx context.Context) ([]string, error) {
	_, all, err := o.sandboxes(ctx, "")
	if err != nil {
		return nil, err
	}
	resp, err := o.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	for _, c := range resp.GetContainers() {
		all = append(all, c.Id)
	}
	return all, err
}
