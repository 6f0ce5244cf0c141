// Bench times podrun against a bare CRI client: the same pods, started on the
// same containerd with the very configs that podrun sends, in turn. It reports
// what podrun costs, not how fast this machine is, so it never fails because of
// a time: its exit code is 0 unless something could not be run.
//
//	make bench
//	hack/with-runtime go run ./test/bench -pairs 15 -run '10 init' -json
//	make bench-serve
//	hack/with-runtime go run ./test/bench -serve -run 'start|restart|probe|real|fake'
//
// It measures a copy of the binary. It prints each section as it ends; interrupted, it has
// printed what it measured. All sections but growth take less than 10 minutes on a quiet
// machine.
//
// With -serve it measures `podrun serve` (serve.go): its memory, its processor time
// while nothing happens, and how fast it reacts.
//
// What is counted:
//
//   - wall: podrun's from before its process is started to its end; the bare
//     client's from its first call to its last answer. The bare client is
//     connected already, and the directories and files that its pods need are
//     made before: it pays for nothing but CRI calls.
//   - own overhead, in runs of their own through a proxy that notes every call:
//     podrun's wall less the union of the times that a call was under way or an
//     init container was running.
//   - reaction: from the moment the runtime first reports that an init container
//     has exited, which the proxy asks every millisecond, to the CreateContainer
//     that follows.
//   - start: version --client, and an empty Go program.
//   - delete: podrun delete against a bare client's StopContainer, StopPodSandbox and
//     RemovePodSandbox of the same pods, all at once.
//   - ConfigMaps and Secrets: what their volumes add to podrun's apply of a pod, and, in
//     the column of the bare client, what the same mounts add to its start of the pod:
//     that is the runtime's time.
//   - pods on the fake: apply, get and delete of one pod while ever more pods of podrun's
//     are on the host, on the fake runtime, with a checkpoint each; and podrun's own
//     processor time in each.
//   - peers: podman and nerdctl, each with the same pod or container, where they are
//     installed. nerdctl uses the containerd of the bench.
//   - images: podrun image pull of distinct images against bare PullImage calls,
//     all at once and one after the other, from a registry that gives each at a
//     rate; and what the registry is asked for a pod whose image is present.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// namespace is that of all pods of the bench, so that what an interrupted one
// left can be distinguished from others.
const namespace = "bench"

type options struct {
	podrun   string // path of the binary
	pairs    int
	limit    time.Duration // of each section; see rounds
	match    *regexp.Regexp
	endpoint string // path of the runtime's socket
	image    string
	json     bool
	trace    bool
	serveOptions
}

func main() {
	o := options{match: regexp.MustCompile("")}
	flag.StringVar(&o.podrun, "podrun", "bin/podrun", "the binary to time")
	flag.IntVar(&o.pairs, "pairs", 11, "how often each scenario is run by podrun and by the bare client")
	flag.DurationVar(&o.limit, "limit", 40*time.Second, "after this time, a section of the bench begins no further pair, if it has three")
	flag.Func("run", "only the sections whose names match this `regexp`", func(s string) (err error) {
		o.match, err = regexp.Compile(s)
		return err
	})
	flag.BoolVar(&o.json, "json", false, "print all numbers as JSON")
	flag.BoolVar(&o.trace, "trace", false, "print each scenario's last calls on stderr")
	serve := flag.Bool("serve", false, "measure podrun serve instead")
	fake := flag.String("fake", "", "serve the fake runtime at this `socket`, for -serve")
	flag.IntVar(&o.serveOptions.pods, "pods", 100, "how many pods -serve runs on the real runtime")
	o.serveOptions.fake = []int{100, 200, 500}
	flag.DurationVar(&o.idle, "idle", time.Minute, "for how long -serve watches an idle one")
	flag.Parse()
	if *fake != "" {
		if err := serveFake(*fake); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.fromEnv()
	switch {
	case err != nil:
	case *serve:
		err = benchServe(ctx, o)
	default:
		err = bench(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// fromEnv takes what hack/runtime says.
func (o *options) fromEnv() error {
	o.image = os.Getenv("PODRUN_TEST_IMAGE")
	endpoint := os.Getenv("CONTAINER_RUNTIME_ENDPOINT")
	if o.image == "" || endpoint == "" {
		return errors.New("CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set: run 'make bench', or eval \"$(hack/runtime up)\" first")
	}
	o.endpoint = regexp.MustCompile("^unix://").ReplaceAllString(endpoint, "")
	var err error
	o.podrun, err = filepath.Abs(o.podrun)
	return err
}

// bench runs everything, prints the report and removes what it made, however
// it ends.
func bench(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, err := dial(o.endpoint)
	if err != nil {
		return err
	}
	defer client.Close()
	p := &podrun{dir: dir}
	if p.path, err = copyBinary(o.podrun, dir); err != nil {
		return err
	}
	cleanUp := func() error {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(p.deleteAll(ctx), removeStray(fresh, client))
	}
	if err := cleanUp(); err != nil { // of one that was killed
		return err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()

	all, err := sections(p, client, o)
	if err != nil {
		return err
	}
	report := newReport(o)
	err = measureSections(ctx, all, o, report)
	if o.json { // of the sections before an error, too
		err = errors.Join(err, report.writeJSON(os.Stdout))
	}
	return err
}

// copyBinary copies the binary and returns the path of the copy. Each start of a file that
// `go build` wrote takes 1.5 to 2 ms longer than that of its copy, and users start an
// installed copy.
func copyBinary(path, dir string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: 'make build' builds it", err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "podrun"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return to.Name(), errors.Join(err, to.Close())
}
