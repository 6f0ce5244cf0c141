// Starts compares how long podrun-node and `podrun apply` take to start the same pod. It also creates 50 pods at
// once, and as many as a node may have:
//
//	starts -kubeconfig FILE -node NAME -pid PID -podrun FILE -image IMAGE [-pairs 20] [-many 110]
//
// Both use the container runtime of CONTAINER_RUNTIME_ENDPOINT. The starts alternate, so that they run under the same
// load. It prints the medians, their ratio, and the memory of the process -pid, which is podrun-node.
// The exit code is 1 if a pod did not start.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"
)

// patience is how long a pod may take to start or to end.
const patience = 5 * time.Minute

// starter starts pods with the API server and with podrun.
type starter struct {
	client              kubernetes.Interface
	node, podrun, image string
	dir                 string // of manifests and of podrun's root directory
	pid                 int
}

func main() {
	var s starter
	kubeconfig := flag.String("kubeconfig", "", "`file` of an administrator of the cluster")
	flag.StringVar(&s.node, "node", "podrun-node", "`name` of the node")
	flag.StringVar(&s.podrun, "podrun", "podrun", "`file` of podrun")
	flag.StringVar(&s.image, "image", "", "`image` with sh, which is present")
	flag.IntVar(&s.pid, "pid", 0, "`PID` of podrun-node")
	pairs := flag.Int("pairs", 20, "`number` of starts of each")
	many := flag.Int("many", 110, "`number` of pods that are created at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, *kubeconfig, *pairs, []int{50, *many}); err != nil {
		fmt.Fprintln(os.Stderr, "starts:", err)
		os.Exit(1)
	}
}

func (s *starter) run(ctx context.Context, kubeconfig string, pairs int, many []int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500 // the client's limit would delay the creation of many pods
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "podrun-starts-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if err := s.compare(ctx, pairs); err != nil {
		return err
	}
	for _, n := range many {
		if err := s.startMany(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// compare alternates between starts by podrun-node and by podrun, in changing order.
func (s *starter) compare(ctx context.Context, pairs int) error {
	var request, response, applied []time.Duration
	byNode := func(name string) error {
		took, err := s.create(ctx, name)
		if err != nil {
			return err
		}
		request, response = append(request, took.request), append(response, took.response)
		return s.delete(ctx, name)
	}
	byApply := func(name string) error {
		took, err := s.apply(ctx, name)
		applied = append(applied, took)
		return err
	}
	for i := range pairs + 1 {
		order := []func(string) error{byNode, byApply}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, start := range order {
			if err := start(fmt.Sprintf("pair-%d", i)); err != nil {
				return err
			}
		}
		if i == 0 { // the first starts fill caches
			request, response, applied = nil, nil, nil
		}
	}
	of := median(applied)
	fmt.Printf("| start of 1 pod, %d pairs | median | against podrun apply |\n|---|---|---|\n", pairs)
	row := func(what string, d time.Duration) {
		fmt.Printf("| %s | %.0f ms | %.2f |\n", what, float64(d)/1e6, float64(d)/float64(of))
	}
	row("podrun apply", of)
	row("podrun-node, from the request to create the pod until Running is visible at the API server", median(request))
	row("podrun-node, from the API server's response", median(response))
	return nil
}

func median(all []time.Duration) time.Duration {
	sorted := slices.SortedFunc(slices.Values(all), cmp.Compare)
	return sorted[len(sorted)/2]
}

// pod returns the pod that both start. It has no service account token, because podrun apply does not mount one.
func (s *starter) pod(name string) *v1.Pod {
	no, seconds := false, int64(1)
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			DNSPolicy: v1.DNSDefault, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &seconds,
			Containers: []v1.Container{{Name: "app", Image: s.image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}}},
		},
	}
}

// times are those from the request to create a pod, and from its response, until the API server shows the pod
// as Running.
type times struct{ request, response time.Duration }

// create creates a pod on the node, and waits until it is Running.
func (s *starter) create(ctx context.Context, name string) (times, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := s.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := s.pod(name)
	pod.Spec.NodeName = s.node
	// The watch begins before the creation, so that its start is not part of the time.
	changes, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return times{}, err
	}
	defer changes.Stop()
	requested := time.Now()
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return times{}, err
	}
	responded := time.Now()
	_, err = watchtools.UntilWithoutRetry(ctx, changes, func(e watch.Event) (bool, error) {
		pod, ok := e.Object.(*v1.Pod)
		return ok && pod.Status.Phase == v1.PodRunning, nil
	})
	if err != nil {
		return times{}, fmt.Errorf("pod %s does not run: %w", name, err)
	}
	return times{time.Since(requested), time.Since(responded)}, nil
}

// delete deletes a pod at the API server, and waits until it is gone.
func (s *starter) delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := s.client.CoreV1().Pods(metav1.NamespaceDefault)
	changes, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return err
	}
	defer changes.Stop()
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := watchtools.UntilWithoutRetry(ctx, changes, func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil }); err != nil {
		return fmt.Errorf("pod %s remains: %w", name, err)
	}
	return nil
}

// apply starts the pod with podrun, in a root directory of its own, and deletes it.
func (s *starter) apply(ctx context.Context, name string) (time.Duration, error) {
	data, err := yaml.Marshal(s.pod(name))
	if err != nil {
		return 0, err
	}
	file := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return 0, err
	}
	podrun := func(args ...string) error {
		c := exec.CommandContext(ctx, s.podrun, append(args, "--root-dir", filepath.Join(s.dir, "root"))...)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, out)
		}
		return nil
	}
	begun := time.Now()
	if err := podrun("apply", "-q", file); err != nil {
		return 0, err
	}
	return time.Since(begun), podrun("delete", name)
}

// startMany creates many pods at once. It prints the time until all of them are Running, and the memory of
// podrun-node at that moment. Then it deletes the pods.
func (s *starter) startMany(ctx context.Context, many int) error {
	name := func(i int) string { return fmt.Sprintf("many-%d-%d", many, i) }
	all := func(do func(ctx context.Context, name string) error) error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range many {
			group.Go(func() error { return do(ctx, name(i)) })
		}
		return group.Wait()
	}
	begun := time.Now()
	if err := all(func(ctx context.Context, name string) error {
		_, err := s.create(ctx, name)
		return err
	}); err != nil {
		return err
	}
	took := time.Since(begun)
	memory, err := s.memory()
	if err != nil {
		return err
	}
	fmt.Printf("%d pods at once: all Running after %.1f s; podrun-node: %s\n", many, took.Seconds(), memory)
	return all(s.delete)
}

// memory returns the resident memory of podrun-node.
func (s *starter) memory() (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "RssAnon:") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(found, ", "), err
}
