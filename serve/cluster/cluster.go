// Package cluster makes a supervisor's host a node of a cluster. It reads the pods of the node from the
// API server, with the objects to which they refer, and passes them to the supervisor as another source.
// It writes the Node object, its lease, the status of the pods and their events. It never starts or stops
// a container. If it cannot read an object, it does not conclude that the object does not exist. See
// docs/design/node.md.
package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/cluster/certificate"
	"github.com/podrun/podrun/serve/source"
)

// Options are the inputs of New.
type Options struct {
	Client   Client
	NodeName string
	// Kubeconfig is the path of the kubeconfig whose client certificate podrun renews; "" if it renews none.
	Kubeconfig string
	// Server is the address of the API server, for messages.
	Server string
	// Port is the port of the HTTPS API; 0 if there is none.
	Port int32
	// Taints are set when the node is registered.
	Taints []corev1.Taint
	Warn   func(problem.List)
}

// Cluster connects a supervisor to an API server. It implements serve.Cluster.
type Cluster struct {
	options Options
	node    serve.ClusterNode // set by Attach

	pods, services cache.SharedIndexInformer
	references     *references
	tokens         *tokens
	statuses       *statuses
	events         *events
	link           *link
	access         *access

	mu sync.Mutex
	// graces contains, by UID, the grace periods of deleted pods whose deletion timestamps podrun has not seen.
	graces map[types.UID]int64
	files  []source.Pod // the pods of manifest directories
	// filesChanged receives a signal when files has changed.
	filesChanged wait.Signal
	// joined is closed when the node has been registered.
	joined   chan struct{}
	joinOnce sync.Once
}

// New returns a Cluster that does nothing until Run.
func New(o Options) *Cluster {
	if o.Warn == nil {
		o.Warn = func(problem.List) {}
	}
	c := &Cluster{options: o, graces: map[types.UID]int64{}, filesChanged: wait.NewSignal(), joined: make(chan struct{})}
	c.link = &link{server: o.Server, warn: o.Warn}
	c.access = newAccess(o.Client, o.NodeName)
	onNode := fields.OneTermEqualSelector("spec.nodeName", o.NodeName).String()
	c.pods = newInformer(o.Client, listWatch(o.Client.Pods(corev1.NamespaceAll), onNode), &corev1.Pod{})
	c.services = newInformer(o.Client, listWatch(o.Client.Services(corev1.NamespaceAll), ""), &corev1.Service{})
	c.references = newReferences(o.Client, c.changed)
	c.tokens = newTokens(o.Client, c.changed)
	c.events = newEvents(o.Client, o.NodeName)
	c.statuses = newStatuses(c)
	return c
}

// Attach implements serve.Cluster.
func (c *Cluster) Attach(n serve.ClusterNode) { c.node = n }

// changed makes the supervisor read the pods again.
func (c *Cluster) changed() { c.node.Changed() }

// Run implements serve.Cluster.
func (c *Cluster) Run(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	// AddEventHandler does not fail before the informer runs.
	_, _ = c.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.podChanged,
		UpdateFunc: func(_, now any) { c.podChanged(now) },
		DeleteFunc: c.podGone,
	})
	loops.Go(func() { c.events.run(ctx) })
	loops.Go(func() { c.statuses.run(ctx) })
	loops.Go(func() { c.keepNode(ctx) })
	if c.options.Kubeconfig != "" {
		renewer := certificate.Renewer{
			Kubeconfig: c.options.Kubeconfig,
			Node:       c.options.NodeName,
			Requests:   c.options.Client.SigningRequests(),
			Warn:       c.options.Warn,
		}
		loops.Go(func() { renewer.Run(ctx) })
	}
	loops.Go(func() {
		// Do not read the pods before: another machine may have the node's name, and its pods do
		// not belong on this host.
		select {
		case <-ctx.Done():
			return
		case <-c.joined:
		}
		loops.Go(func() { c.pods.RunWithContext(ctx) })
		loops.Go(func() { c.services.RunWithContext(ctx) })
		if cache.WaitForCacheSync(ctx.Done(), c.pods.HasSynced, c.services.HasSynced) {
			c.changed()
			c.mirrorFiles(ctx)
		}
	})
	<-ctx.Done()
	c.references.close()
	c.tokens.close()
}

func (c *Cluster) podChanged(o any) {
	pod := o.(*corev1.Pod)
	c.changed()
	c.statuses.check(pod.Namespace, pod.Name)
}

// podGone is called when the API server no longer has a pod.
func (c *Cluster) podGone(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && c.hosted(pod.UID) {
		c.graces[pod.UID] = *grace
	}
	c.mu.Unlock()
	c.references.release(pod.UID)
	c.tokens.release(pod.UID)
	c.statuses.forget(pod.UID)
	c.changed()
}

// Services implements serve.Cluster.
func (c *Cluster) Services(namespace string) []*corev1.Service {
	list, _ := c.services.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	out := make([]*corev1.Service, 0, len(list))
	for _, s := range list {
		out = append(out, s.(*corev1.Service))
	}
	return out
}

// pod returns the API server's pod of a name; nil if there is none.
func (c *Cluster) pod(namespace, name string) *corev1.Pod {
	o, exists, err := c.pods.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	return o.(*corev1.Pod)
}

// hosted reports whether this host has a pod, or a part of it.
func (c *Cluster) hosted(uid types.UID) bool {
	return store.HasCheckpoint(c.node.Engine.Layout(), string(uid))
}

// leftover reports whether this host has a part of a pod, or podrun is working on the pod.
func (c *Cluster) leftover(pod *corev1.Pod) bool {
	if c.hosted(pod.UID) {
		return true
	}
	owner, err := store.ReadOwner(c.node.Engine.Layout(), identity.Pod{Namespace: pod.Namespace, Name: pod.Name})
	return err != nil || owner != nil && owner.UID == string(pod.UID)
}

// Grace implements supervisor.Reports.
func (c *Cluster) Grace(id identity.Pod) *time.Duration {
	var seconds *int64
	if pod := c.pod(id.Namespace, id.Name); pod != nil && string(pod.UID) == id.UID {
		seconds = pod.DeletionGracePeriodSeconds
	} else {
		c.mu.Lock()
		if s, ok := c.graces[types.UID(id.UID)]; ok {
			seconds = &s
		}
		c.mu.Unlock()
	}
	if seconds == nil {
		return nil
	}
	// The kubelet's minimum (pkg/kubelet/kuberuntime): a container gets SIGTERM in any case.
	grace := max(time.Duration(*seconds)*time.Second, time.Second)
	return &grace
}

// Stopped implements supervisor.Reports.
func (c *Cluster) Stopped(id identity.Pod, status corev1.PodStatus) { c.statuses.stopped(id, status) }

// Concluded implements supervisor.Reports.
func (c *Cluster) Concluded(id identity.Pod, known bool, err error) {
	pod := c.pod(id.Namespace, id.Name)
	if pod == nil || id.UID != "" && id.UID != string(pod.UID) {
		c.mu.Lock()
		if !known {
			delete(c.graces, types.UID(id.UID))
		}
		c.mu.Unlock()
		return
	}
	if err != nil {
		c.failed(pod, err)
	}
	c.statuses.check(id.Namespace, id.Name)
}
