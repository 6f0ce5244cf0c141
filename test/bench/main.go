// Bench compares podrun with a bare CRI client: both start the same pods, alternately, on the same
// containerd, with identical configs. It measures the cost of podrun, not the speed of this
// machine, so it does not fail because of a duration: its exit code is 0 unless a measurement could
// not be run.
//
//	make bench
//	make bench OLD=PATH
//	make bench-all
//	hack/with-runtime go run ./test/bench -pairs 15 -run '10 init' -json
//	make bench-bundle
//	make bench-kubelet
//	make bench-serve
//	make bench-rootless
//	make bench-density
//	make bench-docs
//
// The design is in docs/design/bench.md. The bench measures a copy of the binary. It prints each section
// when the section ends, so that an interrupted bench has printed the completed sections.
//
// With -bundle it measures podrun-bundle on its embedded runtime (bundle.go), and with -kubelet
// podrun serve and a standalone kubelet (kubelet.go).
//
// With -rootless it compares the embedded runtime of an ordinary user with that of root, and with rootless podman if it
// is installed (rootless.go).
//
// With -serve it measures `podrun serve` (serve.go): its memory, its CPU time while idle, and its
// reaction times; with -density, the same with up to 500 pods on the embedded runtime (density.go), and
// with -kubelet also a kubelet with 110 pods.
//
// The measurements:
//
//   - wall: for podrun, from before its process is started until it has exited; for the bare
//     client, from its first call to the last response. The bare client is already connected,
//     and the directories and files of its pods already exist: only its CRI calls count.
//   - own overhead, in separate runs through a proxy that records every call: podrun's wall
//     time minus the time in which a call was in progress or an init container was running.
//   - reaction: from the moment when the runtime first reports the exit of an init container,
//     for which the proxy polls every millisecond, to the following StartContainer.
//   - start: version --client, and an empty Go program.
//   - delete: podrun delete compared with StopContainer, StopPodSandbox and RemovePodSandbox
//     calls of a bare client for the same pods, concurrently.
//   - ConfigMaps and Secrets: the time that their volumes add to podrun's apply of a pod, and the
//     time that the same mounts add to the bare client's start of the pod: this is time that the
//     runtime needs.
//   - page faults and new processes and threads: of the whole system, while a program runs. They
//     repeat where times do not.
//   - pods on the fake: apply, get and delete of one pod with an increasing number of podrun's
//     pods, each with a checkpoint, on the fake runtime; and podrun's own CPU time.
//   - peers: podman and nerdctl, if they are installed, each with the same pod or container.
//     nerdctl uses the containerd of the bench.
//   - images: podrun image pull of distinct images compared with bare PullImage calls,
//     concurrent and sequential, from a registry with a limited rate for each image; and the
//     requests to the registry for a pod whose image is present.
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

// namespace contains all pods of the bench, so that leftovers of an interrupted bench can be
// identified.
const namespace = "bench"

type options struct {
	podrun   string // path of the podrun binary
	old      string // path of a second podrun binary; empty if there is none
	kubelet  string // path of a kubelet; empty if there is none
	target   string // target of make
	results  string // directory for the file of the run; empty for none
	pairs    int
	all      bool
	limit    time.Duration  // time limit of each section; see rounds
	match    *regexp.Regexp // names of sections; nil if -all decides
	endpoint string         // path of the runtime's socket
	image    string
	json     bool
	trace    bool
	serveOptions
}

func main() {
	o := options{target: "bench"}
	flag.StringVar(&o.podrun, "podrun", "bin/podrun", "the binary to time")
	flag.StringVar(&o.old, "old", "", "a second podrun `binary`, which takes part in all rounds: each row has both figures and a verdict")
	flag.StringVar(&o.results, "results", "", "write the file of this run into this `directory`, if no measurement failed")
	flag.BoolVar(&o.all, "all", false, "all sections, not only those of README.md")
	flag.IntVar(&o.pairs, "pairs", 25, "how often each scenario is run by podrun and by the bare client")
	flag.DurationVar(&o.limit, "limit", 40*time.Second, "after this time, a section of the bench begins no further round, if it has three")
	flag.Func("run", "only the sections whose names match this `regexp`", func(s string) (err error) {
		o.match, err = regexp.Compile(s)
		return err
	})
	flag.BoolVar(&o.json, "json", false, "print the file of this run instead of the table")
	flag.BoolVar(&o.trace, "trace", false, "print each scenario's last calls on stderr")
	bundle := flag.Bool("bundle", false, "measure podrun-bundle, which -podrun names, with its embedded runtime instead")
	flag.StringVar(&o.kubelet, "kubelet", "", "compare podrun serve with this standalone `kubelet` instead; with -bundle, on the embedded runtime; with -density, beside the least number of pods")
	rootless := flag.Bool("rootless", false, "compare podrun-bundle, which -podrun names, as an ordinary user with podrun-bundle as root instead")
	direction := flag.String("stream", "", "serve, send or receive a stream of -rootless; the argument is the `address`")
	density := flag.Bool("density", false, "measure podrun serve with many pods on the embedded runtime of podrun-bundle, which -podrun names, instead")
	serve := flag.Bool("serve", false, "measure podrun serve instead")
	fake := flag.String("fake", "", "serve the fake runtime at this `socket`, for -serve")
	flag.IntVar(&o.serveOptions.pods, "pods", 100, "how many pods -serve runs on the real runtime")
	o.serveOptions.fake = []int{100, 200, 500}
	flag.DurationVar(&o.idle, "idle", time.Minute, "for how long -serve watches an idle one")
	flag.Parse()
	if *direction != "" {
		if err := runStream(*direction, flag.Arg(0)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *fake != "" {
		if err := serveFake(*fake); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	switch {
	case *density:
		o.target = "bench-density"
	case o.kubelet != "":
		o.target = "bench-kubelet"
	case *rootless:
		o.target = "bench-rootless"
	case *bundle:
		o.target = "bench-bundle"
	case *serve:
		o.target = "bench-serve"
	case o.all:
		o.target = "bench-all"
	}
	if o.old != "" && (*bundle || *rootless || *serve || *density || o.kubelet != "") {
		fmt.Fprintln(os.Stderr, "bench: -old is not supported with -bundle, -rootless, -density, -kubelet and -serve, which start a runtime or a supervisor of one version")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.fromEnv()
	switch {
	case err != nil:
	case *rootless:
		err = benchRootless(ctx, o)
	case *density:
		err = benchDensity(ctx, o)
	case *bundle:
		err = benchBundle(ctx, o)
	case o.kubelet != "":
		err = benchKubelet(ctx, o)
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

// fromEnv sets options from the variables that hack/runtime exports.
func (o *options) fromEnv() error {
	o.image = os.Getenv("PODRUN_TEST_IMAGE")
	endpoint := os.Getenv("CONTAINER_RUNTIME_ENDPOINT")
	if o.image == "" || endpoint == "" {
		return errors.New("CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set: run 'make bench', or eval \"$(hack/runtime up)\" first")
	}
	o.endpoint = regexp.MustCompile("^unix://").ReplaceAllString(endpoint, "")
	var err error
	if o.podrun, err = filepath.Abs(o.podrun); err != nil || o.old == "" {
		return err
	}
	// The second podrun takes time from the other programs, so the figures are not those of other runs.
	o.results = ""
	o.old, err = filepath.Abs(o.old)
	return err
}

// bench runs all sections and prints the report. It always removes the objects that it created.
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
	p := &podrun{name: "podrun", dir: dir}
	if p.path, err = copyBinary(o.podrun, filepath.Join(dir, "new")); err != nil {
		return err
	}
	if o.old != "" {
		p.old = &podrun{name: "old podrun", dir: dir}
		if p.old.path, err = copyBinary(o.old, filepath.Join(dir, "old")); err != nil {
			return err
		}
	}
	cleanUp := func() error {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(p.deleteAll(ctx), removeStray(fresh, client))
	}
	// This removes the leftovers of a killed bench.
	if err := cleanUp(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()

	all, err := sections(p, client, o)
	if err != nil {
		return err
	}
	return run(ctx, all, o, client)
}

// run runs the selected sections and finishes the run. After an error, it writes no file.
func run(ctx context.Context, all []section, o options, client *runtimeClient) error {
	r, err := newResult(ctx, o, client)
	if err != nil {
		return err
	}
	err = measureSections(ctx, all, o, &r)
	if err != nil {
		o.results = ""
	}
	return errors.Join(err, finish(r, o))
}

// copyBinary copies the binary and returns the path of the copy. A file that `go build` has written
// takes 1.5 to 2 ms longer to start than a copy of it, and users start an installed copy.
func copyBinary(path, dir string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: 'make build' builds it", err)
	}
	defer from.Close()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	to, err := os.OpenFile(filepath.Join(dir, "podrun"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return to.Name(), errors.Join(err, to.Close())
}
