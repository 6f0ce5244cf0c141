package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/test/ring"
)

// TestSent runs the pods whose recordings are in testdata end to end. It compares the requests
// to the runtime and the files on the host with those of the kubelet.
func TestSent(t *testing.T) {
	needsHost(t)
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	total := &tally{set: "fake"}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			k := readKept(t, file)
			total.compareSent(t, name, readPod(t, k.manifest), k.sent)
		})
	}
	total.report(t)
}

// TestSentKeptReal is TestSent for the recordings of a real containerd in testdata. Only these
// recordings show that a sidecar has two seconds to stop if the app containers used the whole grace
// period, because containers of the fake runtime exit immediately.
func TestSentKeptReal(t *testing.T) {
	needsHost(t)
	files, err := filepath.Glob(filepath.Join("testdata", "real", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata/real: %v", err)
	}
	total := &tally{set: "real"}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil || len(a.Files) != 2 {
				t.Fatalf("%s: want the files pod.yaml and sent; %v", file, err)
			}
			manifest := filepath.Join(t.TempDir(), "pod.yaml")
			if err := os.WriteFile(manifest, a.Files[0].Data, 0o600); err != nil {
				t.Fatal(err)
			}
			total.compareSent(t, name, readPod(t, manifest), readTracks(t, a.Files[1].Data))
		})
	}
	total.report(t)
}

// TestSentCorpus is TestSent for the pods of the corpus.
func TestSentCorpus(t *testing.T) { sentSet(t, "corpus") }

// TestSentReal is TestSent for the kubelet's requests to a real containerd.
func TestSentReal(t *testing.T) { sentSet(t, "real") }

func sentSet(t *testing.T, set string) {
	t.Helper()
	needsHost(t)
	dir := shared(t)
	total := &tally{set: set}
	for _, file := range recordings(t, dir, set) {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		rec := readRecording(t, file)
		if len(rec.Sandboxes) == 0 {
			continue // covered by TestRefused
		}
		t.Run(name, func(t *testing.T) {
			total.compareSent(t, name, readPod(t, manifestOf(t, dir, set, name)), rec.tracks())
		})
	}
	total.report(t)
}

// needsHost skips the test if the test cannot create the recordings' cgroups.
func needsHost(t *testing.T) {
	t.Helper()
	ring.RequireRoot(t)
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil {
		t.Skip("the recordings require cgroup v1, which this host lacks:", err)
	}
}

func readRecording(t *testing.T, file string) recording {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if err := json.Unmarshal(raw, &rec); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return rec
}

// tally is the score of a set of recordings, by section. The section is the first word of a track's
// name.
type tally struct {
	set      string
	ran      []string // names of the goldens that were compared
	sections map[string]*score
	seen     map[touch]bool
}

func (s *tally) of(track string) *score {
	section, _, _ := strings.Cut(track, " ")
	if s.sections == nil {
		s.sections = map[string]*score{}
	}
	if s.sections[section] == nil {
		s.sections[section] = &score{}
	}
	return s.sections[section]
}

func (s *tally) report(t *testing.T) {
	t.Helper()
	var total score
	for _, section := range slices.Sorted(maps.Keys(s.sections)) {
		n := s.sections[section]
		total.add(*n)
		t.Logf("%s: %-10s %5d of %5d are the kubelet's, %4d more differ as documented", s.set, section, n.equal, n.equal+n.different, n.documented)
	}
	t.Logf("%s: %d pods, end to end: %d of %d lines are the kubelet's, %d more differ as documented", s.set, len(s.ran), total.equal, total.equal+total.different, total.documented)
	if total.equal == 0 {
		t.Error("nothing was compared")
	}
	s.allSeen(t)
}

// compareSent runs the pod and compares it with the kubelet's tracks.
func (s *tally) compareSent(t *testing.T, name string, pod *corev1.Pod, kubelets tracks) {
	t.Helper()
	w := world{real: s.set == "real", bare: true}
	if w.real {
		w.starts = cutShort[name]
	}
	if name == "25-hugepages" && hugePages(t) < 2 {
		t.Skip("this host lacks two free huge pages of 2Mi for the pod")
	}
	s.ran = append(s.ran, name)
	host := hostDir(t)
	pod = prepared(t, pod, host)
	podruns, words, refused := sentOf(t, pod, asText(t, pod), w)
	if words == nil {
		s.differs(t, name, difference{"pod", fmt.Sprintf("refused: %v", refused), true})
		// podrun does not refuse this pod on a bare host, so the test can compare its actions.
		if w.bare = false; name == invalidImage {
			pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "invalid" })
		}
		if podruns, words, refused = sentOf(t, pod, asText(t, pod), w); words == nil {
			s.differs(t, name, difference{"pod", fmt.Sprintf("refused: %v", refused), true})
			return
		}
	}
	for track := range podruns {
		if kubelets[track] == nil {
			kubelets[track] = nil
		}
	}
	for _, track := range slices.Sorted(maps.Keys(kubelets)) {
		var lines []string
		for _, l := range kubelets[track] {
			lines = append(lines, strings.ReplaceAll(words.Replace(l), recordedHost, host))
		}
		equal, differences := diff(track, sorted(track, lines), sorted(track, podruns[track]))
		s.of(track).equal += equal
		for _, d := range differences {
			s.differs(t, name, d)
		}
	}
}

// differs counts a difference, and reports an error unless a cause explains it.
func (s *tally) differs(t *testing.T, name string, d difference) {
	t.Helper()
	if s.explained(name, d) || !recordedHere(t) && hostValues.MatchString(d.line) {
		s.of(d.track).documented++
		return
	}
	s.of(d.track).different++
	t.Errorf("%s: %s", name, d)
}

// hostValues are fields whose values depend on the recording host. TestParity compares them
// with the facts of that host.
var hostValues = regexp.MustCompile(`oom_score_adj|hugepage_limits|^hugetlb|^memory\.swappiness|memory_swap_limit|size=\d+k|` +
	`^etc-hosts text "# Kubernetes-managed hosts file \(host network\)|(CPU|MEM)[A-Z_]*=`)

// recordedHere reports whether this host has the same properties as the host of the recording.
func recordedHere(t *testing.T) bool {
	t.Helper()
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumCPU() == 2 && strings.Contains(string(memory), " 24684092 kB") && string(hosts) == facts().EtcHosts
}

// invalidImage is a golden with a container "invalid". podrun refuses the pod because of the
// name of the container's image.
const invalidImage = "28-image-policies"

// hugePages returns the number of free 2Mi pages.
func hugePages(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sorted sorts lines that have no fixed order, after their words were replaced by values.
func sorted(track string, lines []string) []string {
	if slices.Contains([]string{"images", "pulls", "probes", "files", "cgroup"}, track) {
		slices.Sort(lines)
	}
	return lines
}

// recordedHost is the directory of the recorded pods' hostPath volumes.
const recordedHost = "/tmp/crioracle-host"

// sentFor runs a pod, and returns its tracks. If podrun did not start the pod, the error is the
// reason.
func sentFor(t *testing.T, pod *corev1.Pod) (sent tracks, words *strings.Replacer, refused error) {
	t.Helper()
	return sentOf(t, pod, asText(t, pod), world{})
}

func asText(t *testing.T, pod *corev1.Pod) []byte {
	t.Helper()
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// world describes the behavior of a recording's runtime.
type world struct {
	// If real is true, containers behave as their commands specify, as in containerd. Otherwise,
	// the names of the containers and the pod's annotation determine their behavior.
	real bool
	// starts is the number of container starts after which the recording stops. 0 means that it
	// stops when no further acting call arrives.
	starts int
	// bare means that the host has none of the pod's seccomp profiles, and that the runtime states
	// in advance which images are present.
	bare bool
}

// cutShort contains the recordings of "real" that ended while the pod was still active, with the
// number of container starts.
var cutShort = map[string]int{"41-liveness-fails": 2}

// sentOf runs the pod in a manifest.
func sentOf(t *testing.T, pod *corev1.Pod, text []byte, w world) (sent tracks, words *strings.Replacer, refused error) {
	t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: "pod.yaml", Data: text}}, manifest.Options{Validate: manifest.Ignore})
	if errs := problems.Errors(); len(errs) > 0 {
		return nil, nil, &problem.Error{Kind: problem.Manifest, Problems: errs}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pod, w)
		rec, err := r.live(objects)
		if len(rec.Sandboxes) == 0 {
			refused = err
			return
		}
		words, sent = r.words(pod), rec.tracks()
	})
	return sent, words, refused
}

// hostDir creates the files for the hostPath volumes. They are on a shared mount, as on a host that
// runs containers.
func hostDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, err := range []error{
		unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_SHARED, ""),
		os.Mkdir(filepath.Join(dir, "dir"), 0o755), os.WriteFile(filepath.Join(dir, "file.txt"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// prepared makes the pod's hostPath volumes directories below host. For pods of the corpus, it
// removes the types of these volumes: their directories may not exist on this machine, and
// podrun would create them. The runtime does not receive the types.
func prepared(t *testing.T, pod *corev1.Pod, host string) *corev1.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	pod.UID, pod.Spec.NodeName = "", ""
	for i := range pod.Spec.Volumes {
		if h := pod.Spec.Volumes[i].HostPath; h != nil {
			if !strings.HasPrefix(h.Path, recordedHost) {
				h.Type = nil
			}
			h.Path = strings.Replace(h.Path, recordedHost, host, 1)
		}
	}
	return pod
}

// words maps the words of the recordings to their values in this run.
func (r *rig) words(pod *corev1.Pod) *strings.Replacer {
	name, _ := dns.Hostname(&corev1.Pod{ObjectMeta: pod.ObjectMeta}, "", false)
	return strings.NewReplacer("<UID>", r.uid, "<POD>", pod.Name, "<POD:63>", name.Host,
		"<PODIP>", firstIP, "<HOSTIP>", hostIP, "<NODE>", node, "<ROOT>", r.settings.RootDir, "<LOGS>", r.settings.PodLogsDir)
}

// firstIP is the address that the runtime assigns to its first pod.
const firstIP = "127.88.0.2"
