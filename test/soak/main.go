// Soak lets `podrun serve` supervise pods on the test runtime while it repeatedly kills podrun and
// the runtime. It checks every start of every container with a model of the container's restart
// policy and back-off (model.go). The model implements docs/serve.md. Its inputs are the records
// that the containers write. At the end, Soak removes the manifests, and no leftovers may remain.
//
//	make soak                               30 pods, 20 minutes
//	make soak SOAK_PODS=6 SOAK_MINUTES=1    the short form
//
// Its exit code is 1 if the model finds a violation, or if leftovers remain.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// namespace is the namespace of all pods.
const namespace = "soak"

type options struct {
	podrun, runtime, image  string
	pods                    int
	lasts                   time.Duration
	killServe, killRuntime  time.Duration
	startTimeout, slack     time.Duration
	place                   place
	dir, manifests, records string
}

func main() {
	o := options{image: os.Getenv("PODRUN_TEST_IMAGE")}
	flag.StringVar(&o.podrun, "podrun", "bin/podrun", "the binary to test")
	flag.StringVar(&o.runtime, "runtime", "hack/runtime", "the script that restarts the runtime")
	flag.IntVar(&o.pods, "pods", 30, "how many pods")
	flag.DurationVar(&o.lasts, "for", 20*time.Minute, "how long the pods are supervised")
	flag.DurationVar(&o.killServe, "kill-serve", 0, "how often podrun serve is killed; 0 for every 20 s, and 8 times at least")
	flag.DurationVar(&o.killRuntime, "kill-runtime", 0, "how often containerd is killed; 0 for every minute, and twice at least")
	flag.DurationVar(&o.startTimeout, "start-timeout", 2*time.Minute, "how long all pods may take to start")
	flag.DurationVar(&o.slack, "slack", 20*time.Second, "how late a restart may be: kills included")
	flag.Parse()
	// Even a short soak includes kills.
	o.killServe = cmp.Or(o.killServe, min(20*time.Second, o.lasts/9))
	o.killRuntime = cmp.Or(o.killRuntime, min(time.Minute, o.lasts*2/5))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run executes the soak. It always removes all objects that the soak created.
func (o *options) run(ctx context.Context) (err error) {
	if o.place, err = placeFromEnv(); err != nil {
		return err
	}
	if before, err := o.place.left(ctx); err != nil || len(before) > 0 {
		return errors.Join(err, fmt.Errorf("the runtime is not empty, run hack/runtime down first: %q", before))
	}
	if o.dir, err = os.MkdirTemp("", "podrun-soak-"); err != nil {
		return err
	}
	o.manifests, o.records = filepath.Join(o.dir, "manifests"), filepath.Join(o.dir, "records")
	if err := errors.Join(os.Mkdir(o.manifests, 0o755), os.Mkdir(o.records, 0o755)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.dir, "serve.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s := &supervisor{podrun: o.podrun, manifests: o.manifests, log: log}
	err = o.soak(ctx, s)
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	if err != nil {
		err = errors.Join(err, s.stop(), command(fresh, o.podrun, "delete", "--all", "--force", "-n", namespace))
		return fmt.Errorf("%w\nthe log and records are in %s", err, o.dir)
	}
	return os.RemoveAll(o.dir)
}

// soak starts the pods, kills podrun and the runtime, judges the containers, and removes the
// pods.
func (o *options) soak(ctx context.Context, s *supervisor) error {
	pods := soakPods(o.pods, o.image, o.records)
	for _, p := range pods {
		if err := os.WriteFile(filepath.Join(o.manifests, p.name+".yaml"), []byte(p.yaml), 0o600); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := s.start(); err != nil {
		return err
	}
	if err := o.allStarted(ctx, pods); err != nil {
		return err
	}
	fmt.Printf("%d pods started in %.1f s\n", len(pods), time.Since(begin).Seconds())
	kills, crashes, err := o.killing(ctx, s)
	if err != nil {
		return err
	}
	// These times allow a later examination of a verdict.
	times := fmt.Sprintf("podrun serve: %s\ncontainerd: %s\n", kills, crashes)
	if err := os.WriteFile(filepath.Join(o.dir, "kills"), []byte(times), 0o600); err != nil {
		return err
	}
	err = o.judgeAll(pods, kills, crashes)
	fmt.Printf("podrun serve was killed %d times, containerd %d times, in %s\n", len(kills), len(crashes), o.lasts)
	return errors.Join(err, o.removeAll(ctx, s, pods))
}

// allStarted waits until every container has been started at least once.
func (o *options) allStarted(ctx context.Context, pods []soakPod) error {
	deadline := time.Now().Add(o.startTimeout)
	for {
		waits := ""
		for _, p := range pods {
			for _, c := range p.subjects {
				if _, err := os.Stat(filepath.Join(o.records, c.pod, c.container)); err != nil {
					waits = c.pod + "/" + c.container
				}
			}
		}
		switch {
		case waits == "":
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s was not started within %s", waits, o.startTimeout)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// killing repeatedly kills podrun and the runtime for the duration of the soak. It returns the
// times of the kills of each.
func (o *options) killing(ctx context.Context, s *supervisor) (kills, crashes []time.Duration, err error) {
	over := time.After(o.lasts)
	serve, runtime := time.NewTicker(o.killServe), time.NewTicker(o.killRuntime)
	defer serve.Stop()
	defer runtime.Stop()
	for {
		select {
		case <-ctx.Done():
			return kills, crashes, ctx.Err()
		case <-over:
			return kills, crashes, nil
		case <-serve.C:
			at, err := uptime()
			if err == nil {
				err = s.kill()
			}
			if err != nil {
				return kills, crashes, err
			}
			kills = append(kills, at)
		case <-runtime.C:
			at, err := uptime()
			if err == nil {
				err = command(ctx, o.runtime, "crash")
			}
			if err != nil {
				return kills, crashes, err
			}
			crashes = append(crashes, at)
		}
	}
}

// judgeAll checks the record of every container against the model.
func (o *options) judgeAll(pods []soakPod, kills, crashes []time.Duration) error {
	now, err := uptime()
	if err != nil {
		return err
	}
	var late []time.Duration
	var errs []error
	starts, containers, hidden, cut := 0, 0, 0, 0
	for _, p := range pods {
		for _, c := range p.subjects {
			data, err := os.ReadFile(filepath.Join(o.records, c.pod, c.container))
			if err != nil {
				return err
			}
			runs, err := parseRuns(string(data))
			if err != nil {
				return fmt.Errorf("%s/%s: %w", c.pod, c.container, err)
			}
			v := judge(runs, conditions{policy: c.policy, now: now, slack: o.slack, kills: kills, crashes: crashes})
			if c.starts > 0 && v.starts > c.starts+v.hidden {
				v.fault("was started %d times instead of %d", v.starts, c.starts)
			}
			for _, f := range v.faults {
				errs = append(errs, fmt.Errorf("%s/%s %s", c.pod, c.container, f))
			}
			late = append(late, v.late...)
			starts, containers, hidden, cut = starts+v.starts, containers+1, hidden+v.hidden, cut+v.cut
		}
	}
	slices.Sort(late)
	fmt.Printf("%d containers, %d starts, %d wrong; %d runs hidden and %d starts cut by a kill\n", containers, starts, len(errs), hidden, cut)
	if n := len(late); n > 0 {
		fmt.Printf("%d restarts after the end of their back-off by: median %s, 90%% %s, longest %s\n", n,
			late[n/2].Round(time.Millisecond), late[n*9/10].Round(time.Millisecond), late[n-1].Round(time.Millisecond))
	}
	return errors.Join(errs...)
}

// removeAll removes the manifests, and waits until no objects remain.
func (o *options) removeAll(ctx context.Context, s *supervisor, pods []soakPod) error {
	begin := time.Now()
	for _, p := range pods {
		if err := os.Remove(filepath.Join(o.manifests, p.name+".yaml")); err != nil {
			return err
		}
	}
	var left []string
	for time.Since(begin) < o.startTimeout {
		var err error
		if left, err = o.place.left(ctx); err != nil {
			return err
		}
		if len(left) == 0 {
			fmt.Printf("nothing is left %.1f s after the manifests were removed\n", time.Since(begin).Seconds())
			return s.stop()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("left %s after the manifests were removed: %q", o.startTimeout, left), s.stop())
}
