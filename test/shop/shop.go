package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/embedded"
)

// names are the pods of Manifest. The client is the last one, because the test does not kill it.
var names = []string{"web", "db", "web-1", "client"}

// calm is the number of requests that must begin and end between two kills.
const calm = 5

// Shop is a running shop.
type Shop struct {
	// Podrun runs podrun, and returns its standard output.
	Podrun func(args ...string) (string, error)
	Layout embedded.Layout
	// Dir is the directory of Manifest.
	Dir string
	// Patience is the time limit after each kill.
	Patience time.Duration
	Log      func(format string, args ...any)

	pods  map[string]pod
	gone  map[string]bool // addresses of sandboxes that have ended
	start int64           // size of the file of requests at the beginning
	kills int             // of all calls of Run
}

// pod is a pod that is ready.
type pod struct{ uid, container, ip string }

// window is a time from a kill until the pods are ready, in hundredths of a second since the boot.
type window struct {
	kill       string
	begin, end int64
}

// Report has the results of Run.
type Report struct {
	Kills int
	// Requests are all, Disturbed those of them that failed and that overlap a window from a kill until
	// podrun reported all pods ready and the rules had exactly the addresses of the ready pods.
	Requests, Disturbed int
	// Failed are the requests that failed outside these windows.
	Failed []string
	// Median and Longest are lengths of windows.
	Median, Longest time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("%d kills, %d requests, %d failed between a kill and readiness, %d after readiness; ready again after %.1f s (median), %.1f s (maximum)",
		r.Kills, r.Requests, r.Disturbed, len(r.Failed), r.Median.Seconds(), r.Longest.Seconds())
}

// Run waits until the shop is ready. Then it kills the pods other than the client in turn, kills times: once
// the processes of the container, and the next time those of the whole pod, which then gets another
// sandbox. A second call continues with the next pod. After each kill it waits until the shop is ready again, and then for some
// requests. It returns an error if the shop does not become ready; failed requests are in the report.
func (s *Shop) Run(ctx context.Context, kills int) (Report, error) {
	s.gone = map[string]bool{}
	if info, err := os.Stat(s.requests()); err == nil {
		s.start = info.Size()
	}
	if err := s.ready(ctx, "", pod{}); err != nil {
		return Report{}, err
	}
	windows := []window{{end: uptime()}} // what was before is not measured
	for i := range kills {
		if err := s.served(ctx, windows[len(windows)-1].end); err != nil {
			return s.report(windows), err
		}
		w, err := s.kill(ctx, names[s.kills%(len(names)-1)], s.kills%2 == 1)
		s.kills++
		windows = append(windows, w) // even if the pods did not become ready, because that is why requests failed
		if err != nil {
			return s.report(windows), fmt.Errorf("%d: %s: %w", i+1, w.kill, err)
		}
		s.Log("%d: %s: ready again after %.2f s", i+1, w.kill, float64(w.end-w.begin)/100)
	}
	err := s.served(ctx, windows[len(windows)-1].end)
	return s.report(windows), err
}

// kill kills processes of a pod, and waits until the shop is ready.
func (s *Shop) kill(ctx context.Context, name string, whole bool) (window, error) {
	p := s.pods[name]
	w, group := window{kill: "container of " + name, begin: uptime()}, []string{p.container}
	if whole {
		// With the systemd driver, the names of cgroups have underscores.
		w.kill, group = "pod "+name, []string{p.uid, strings.ReplaceAll(p.uid, "-", "_")}
	}
	n, err := killGroup(group)
	if err == nil && n == 0 {
		err = errors.New("it has no process")
	}
	if err != nil {
		return w, fmt.Errorf("kill %s: %w", w.kill, err)
	}
	if whole {
		s.gone[p.ip] = true
	}
	err = s.ready(ctx, name, p)
	w.end = uptime()
	return w, err
}

// killGroup kills the processes whose cgroups have one of these names.
func killGroup(names []string) (n int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		groups, _ := os.ReadFile(file) // the process may have ended
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(string(groups), name) }) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if kill := syscall.Kill(pid, syscall.SIGKILL); kill == nil {
			n++
		} else if !errors.Is(kill, syscall.ESRCH) {
			err = errors.Join(err, kill)
		}
	}
	return n, err
}

// ready waits until podrun reports that all pods are ready, that the killed pod has another container than
// before, and that the rules have the addresses of these pods and of no earlier ones.
func (s *Shop) ready(ctx context.Context, killed string, before pod) error {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	for {
		began := time.Now()
		pods, err := s.read()
		if err == nil && killed != "" && pods[killed].container == before.container {
			err = fmt.Errorf("the container of %s is the one that was killed", killed)
		}
		if err == nil {
			err = s.forwarded(pods)
		}
		if err == nil {
			s.pods = pods
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", s.Patience, err)
		// In an emulated guest, podrun get takes seconds of CPU time, from the processes for which this waits.
		case <-time.After(max(20*time.Millisecond, 2*time.Since(began))):
		}
	}
}

// read reads the pods. It returns an error unless all are ready.
func (s *Shop) read() (map[string]pod, error) {
	out, err := s.Podrun("get", "pods", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("podrun get: %w: %s", err, out)
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	pods := map[string]pod{}
	for _, p := range list.Items {
		if podutil.IsPodReady(&p) && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil {
			_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
			pods[p.Name] = pod{uid: string(p.UID), container: id, ip: p.Status.PodIP}
		}
	}
	for _, name := range names {
		if pods[name].container == "" {
			return nil, fmt.Errorf("the pod %s is not ready", name)
		}
	}
	return pods, nil
}

// forwarded returns an error unless the rules have the addresses of the servers and no earlier ones.
func (s *Shop) forwarded(pods map[string]pod) error {
	rules, err := readRules("podrun-services-" + s.Layout.Bridge())
	if err != nil {
		return err
	}
	for _, name := range names[:len(names)-1] {
		if !rules.have(pods[name].ip) {
			return fmt.Errorf("the rules lack the address %s of %s", pods[name].ip, name)
		}
		delete(s.gone, pods[name].ip) // another pod may have received it
	}
	for ip := range s.gone {
		if rules.have(ip) {
			return fmt.Errorf("the rules have the address %s of a sandbox that has ended", ip)
		}
	}
	return nil
}

// served waits until some requests began after a time and have ended.
func (s *Shop) served(ctx context.Context, since int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	for {
		n := 0
		for _, r := range s.readRequests() {
			if r.begin > since {
				n++
			}
		}
		if n >= calm {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d requests in %s", n, s.Patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Shop) report(windows []window) Report {
	r := Report{Kills: len(windows) - 1}
	for _, q := range s.readRequests() {
		if q.begin <= windows[0].end {
			continue
		}
		r.Requests++
		if q.ok() {
			continue
		}
		if slices.ContainsFunc(windows[1:], func(w window) bool { return q.begin <= w.end && w.begin <= q.end }) {
			r.Disturbed++
		} else {
			r.Failed = append(r.Failed, q.text)
		}
	}
	var lengths []time.Duration
	for _, w := range windows[1:] {
		lengths = append(lengths, time.Duration(w.end-w.begin)*10*time.Millisecond)
	}
	if slices.Sort(lengths); len(lengths) > 0 {
		r.Median, r.Longest = lengths[len(lengths)/2], lengths[len(lengths)-1]
	}
	return r
}

// request is one line of the client.
type request struct {
	text, answer string
	begin, end   int64
}

// ok reports whether one of the web servers answered, with the answer of db.
func (r request) ok() bool { return r.answer == "web: stock" || r.answer == "web-1: stock" }

func (s *Shop) requests() string { return filepath.Join(s.Dir, "requests") }

// readRequests reads the requests that have ended since the beginning of Run.
func (s *Shop) readRequests() (out []request) {
	data, _ := os.ReadFile(s.requests()) // the client may not have written it yet
	for line := range strings.Lines(string(data[min(int(s.start), len(data)):])) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if !strings.HasSuffix(line, "\n") || len(f) != 3 {
			continue // the client is writing it
		}
		out = append(out, request{text: line, begin: hundredths(f[0]), end: hundredths(f[1]), answer: f[2]})
	}
	return out
}

// uptime returns the hundredths of a second since the boot.
func uptime() int64 {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		panic(err) // no machine that runs pods lacks it
	}
	first, _, _ := strings.Cut(string(data), " ")
	return hundredths(first)
}

func hundredths(seconds string) int64 {
	n, err := strconv.ParseInt(strings.Replace(seconds, ".", "", 1), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%q is not an uptime", seconds))
	}
	return n
}
