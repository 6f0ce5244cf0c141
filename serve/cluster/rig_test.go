package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/source"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/ring"
)

// typed is the typed client of a fake API server.
type typed struct{ *fake.Clientset }

func (c typed) Pods(namespace string) objects[*corev1.Pod, *corev1.PodList] {
	return c.CoreV1().Pods(namespace)
}
func (c typed) Services(namespace string) objects[*corev1.Service, *corev1.ServiceList] {
	return c.CoreV1().Services(namespace)
}
func (c typed) ConfigMaps(namespace string) objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return c.CoreV1().ConfigMaps(namespace)
}
func (c typed) Secrets(namespace string) objects[*corev1.Secret, *corev1.SecretList] {
	return c.CoreV1().Secrets(namespace)
}
func (c typed) Claims(namespace string) objects[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return c.CoreV1().PersistentVolumeClaims(namespace)
}
func (c typed) Volumes() objects[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return c.CoreV1().PersistentVolumes()
}
func (c typed) Events(namespace string) objects[*corev1.Event, *corev1.EventList] {
	return c.CoreV1().Events(namespace)
}
func (c typed) Nodes() objects[*corev1.Node, *corev1.NodeList] { return c.CoreV1().Nodes() }
func (c typed) Leases(namespace string) objects[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return c.CoordinationV1().Leases(namespace)
}
func (c typed) RuntimeClasses() objects[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return c.NodeV1().RuntimeClasses()
}
func (c typed) SigningRequests() objects[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
	return c.CertificatesV1().CertificateSigningRequests()
}
func (c typed) CreateToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
}

func (c typed) Review(ctx context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return c.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
}

// rig is a host with a fake runtime, a supervisor and a fake API server. Its cgroups are real.
type rig struct {
	t        *testing.T
	rt       *critest.Runtime
	client   *fake.Clientset
	settings nodeconfig.Settings
	down     string // why the runtime is down

	cluster *Cluster
	end     func()

	mu       sync.Mutex
	warnings []string
	files    *source.Snapshot
	changed  chan struct{}
}

const nodeA = "node-a"

// apiServer returns a fake API server. It gives objects UIDs, as an API server does: podrun
// recognizes an empty patch, and another object of the same name, by the UID.
func apiServer() *fake.Clientset {
	c := fake.NewSimpleClientset()
	c.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create := a.(clienttesting.CreateAction)
		object := create.GetObject().DeepCopyObject()
		of, err := meta.Accessor(object)
		if err != nil || of.GetUID() != "" || create.GetSubresource() != "" || of.GetName() == "" {
			return false, nil, nil
		}
		of.SetUID(uuid.NewUUID())
		return true, object, c.Tracker().Create(a.GetResource(), object, a.GetNamespace())
	})
	return c
}

// clusterTest runs a test in a bubble, with a supervisor that is a node of a cluster.
func clusterTest(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	ring.RequireRoot(t)
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, rt: critest.ForTest(t), client: apiServer(), settings: nodeconfig.Default(), files: &source.Snapshot{}}
		dir := t.TempDir()
		r.settings.RootDir, r.settings.PodLogsDir, r.settings.ContainerLogsDir = filepath.Join(dir, "root"), filepath.Join(dir, "logs"), filepath.Join(dir, "links")
		r.settings.EvictionHard, r.settings.HostnameOverride, r.settings.RegistryPullQPS = nil, nodeA, 0
		r.settings.CgroupRoot = "/podrun-ut-" + store.RandomHex(6)
		r.rt.AddImage(critest.Image{Name: "registry.example/app:1", Entrypoint: []string{"/server"}})
		t.Cleanup(func() { removeGroups(t, r.settings.CgroupRoot) })
		r.start()
		test(t, r)
		r.end()
		e := r.engine()
		known, err := lookup.Find(context.Background(), e, lookup.Selector{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.DeletePods(context.Background(), e, known, run.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// removeGroups removes the cgroups of a test.
func removeGroups(t *testing.T, root string) {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup" + root, "/sys/fs/cgroup/*" + root} {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
		}
	}
	for _, d := range slices.Backward(dirs) {
		if err := os.Remove(d); err != nil {
			t.Error(err)
		}
	}
}

func (r *rig) engine() *run.Node {
	return &node.Node{Client: r.rt.Client(), Settings: r.settings, Invocation: run.NewInvocation(), Command: "podrun-node test",
		Emit: func(event.Event) {}, Warn: r.warn}
}

func (r *rig) warn(l problem.List) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range l {
		r.warnings = append(r.warnings, p.String())
	}
}

// warned counts the warnings that contain a text.
func (r *rig) warned(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.warnings {
		if strings.Contains(w, text) {
			n++
		}
	}
	return n
}

// Read implements supervisor.Sources.
func (r *rig) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	r.mu.Lock()
	files := *r.files
	r.mu.Unlock()
	s, d := r.cluster.Merge(&files, source.Merge(&files))
	return s, d, ctx.Err()
}

// start starts podrun-node, which acts like a separate process.
func (r *rig) start() {
	r.t.Helper()
	e := r.engine()
	r.changed = make(chan struct{}, 1)
	changed := r.changed
	r.cluster = New(Options{Client: typed{r.client}, NodeName: nodeA, Server: "https://api.example", Port: 10250, Warn: r.warn,
		Taints: []corev1.Taint{{Key: "podrun.dev/host", Value: "true", Effect: corev1.TaintEffectNoSchedule}}})
	r.cluster.Attach(serve.ClusterNode{Engine: e, RuntimeDown: func() string { return r.down }, Changed: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	emit := e.Emit
	e.Emit = func(o event.Event) { r.cluster.Note(o); emit(o) }
	e.Observer.Status, e.ClusterServices = r.cluster.Status, r.cluster.Services
	s := supervisor.New(e, supervisor.Options{Sources: r, Changed: changed, AllowKubelet: true, Reports: r.cluster})
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { r.cluster.Run(ctx) })
	loops.Go(func() {
		if err := s.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(cancel)
	r.end = func() { cancel(); loops.Wait() }
	time.Sleep(5 * time.Second)
}

// fileSource reads the manifest directory of a rig.
type fileSource struct{ *rig }

// Read implements supervisor.Sources.
func (s fileSource) Read(ctx context.Context) (*source.Snapshot, *source.Desired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := *s.files
	return &files, source.Merge(&files), ctx.Err()
}

// startServe starts serve, without a cluster.
func (r *rig) startServe() {
	r.changed = make(chan struct{}, 1)
	s := supervisor.New(r.engine(), supervisor.Options{Sources: fileSource{r}, Changed: r.changed, AllowKubelet: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r.t.Cleanup(cancel)
	r.end = func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	}
	time.Sleep(5 * time.Second)
}

// file defines the pods of a manifest directory.
func (r *rig) file(s *source.Snapshot) {
	r.mu.Lock()
	r.files = s
	r.mu.Unlock()
	r.changed <- struct{}{}
	time.Sleep(5 * time.Second)
}

// bound returns a pod as the API server has it after the scheduler has bound it.
func bound(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec: corev1.PodSpec{NodeName: nodeA, ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: name, Image: "registry.example/app:1", ImagePullPolicy: corev1.PullIfNotPresent}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}}
	for _, c := range change {
		c(p)
	}
	return p
}

// create creates objects and waits until podrun has processed them.
func (r *rig) create(objects ...runtime.Object) {
	r.t.Helper()
	for i, o := range objects {
		if i%50 == 49 {
			synctest.Wait() // a watch of the fake API server panics if it has to keep more than 100 events
		}
		var err error
		switch o := o.(type) {
		case *corev1.Pod:
			_, err = r.client.CoreV1().Pods(o.Namespace).Create(r.t.Context(), o, metav1.CreateOptions{})
		case *corev1.ConfigMap:
			_, err = r.client.CoreV1().ConfigMaps(o.Namespace).Create(r.t.Context(), o, metav1.CreateOptions{})
		case *corev1.Service:
			_, err = r.client.CoreV1().Services(o.Namespace).Create(r.t.Context(), o, metav1.CreateOptions{})
		default:
			r.t.Fatalf("no client for %T", o)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second)
}

// pod reads a pod of the API server; nil if there is none.
func (r *rig) pod(name string) *corev1.Pod {
	p, err := r.client.CoreV1().Pods("shop").Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// patches counts the patches of a pod's status.
func (r *rig) patches(name string) (n int) {
	for _, a := range r.client.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && p.GetName() == name && p.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// deleting does what the API server does with a graceful deletion.
func (r *rig) deleting(name string, grace int64) {
	r.t.Helper()
	p := r.pod(name)
	now := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	p.Generation++
	if _, err := r.client.CoreV1().Pods("shop").Update(r.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// wantPhase checks the phase of a pod at the API server.
func (r *rig) wantPhase(name string, want corev1.PodPhase) *corev1.Pod {
	r.t.Helper()
	p := r.pod(name)
	if p == nil {
		r.t.Fatalf("pod %s does not exist", name)
	}
	if p.Status.Phase != want {
		r.t.Fatalf("pod %s: phase %s (%s %s), want %s; warnings %q", name, p.Status.Phase, p.Status.Reason, p.Status.Message, want, r.warnings)
	}
	return p
}

// runs reports whether the container with a name runs.
func (r *rig) runs(name string) bool {
	c, ok := r.rt.Container(name)
	return ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// fail makes the API server refuse all requests with an error, until the returned function is called.
func (r *rig) fail(err error) (heal func()) {
	failing := true
	r.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if failing {
			return true, nil, err
		}
		return false, nil, nil
	})
	return func() { failing = false }
}

// events returns how often an event with a reason occurred.
func (r *rig) events(reason string) (n int32) {
	r.t.Helper()
	list, err := r.client.CoreV1().Events("shop").List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			n += e.Count
		}
	}
	return n
}

// env returns the environment variables of a container.
func (r *rig) env(name string) map[string]string {
	r.t.Helper()
	c, ok := r.rt.Container(name)
	if !ok {
		r.t.Fatalf("container %s does not exist; warnings %q", name, r.warnings)
	}
	out := map[string]string{}
	for _, e := range c.Config.GetEnvs() {
		out[e.GetKey()] = string(e.GetValue())
	}
	return out
}

// secret returns the content of the one Secret of a pod's checkpoint.
func (r *rig) secret(uid string) string {
	r.t.Helper()
	c, err := store.ViewCheckpoint(r.settings.Layout(), uid)
	if err != nil || c == nil || len(c.Secrets) != 1 {
		r.t.Fatalf("checkpoint %v: %v", c, err)
	}
	return string(c.Secrets[0].Data[corev1.ServiceAccountTokenKey])
}
