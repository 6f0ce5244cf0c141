package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/podrun/podrun/internal/event"
)

// events sends events to the API server. It aggregates them and limits their rate as the kubelet does
// (k8s.io/client-go/tools/record). If the API server does not answer, events are lost; the journals of the
// pods have them.
type events struct {
	client   Client
	node     string
	recorder record.EventRecorder
	source   record.EventBroadcaster
}

func newEvents(client Client, node string) *events {
	e := &events{client: client, node: node, source: record.NewBroadcaster()}
	// The scheme needs no kinds, because podrun records events only for object references.
	e.recorder = e.source.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "kubelet", Host: node})
	return e
}

// run sends events until ctx ends.
func (e *events) run(ctx context.Context) {
	watch := e.source.StartRecordingToSink(sink{ctx, e.client})
	<-ctx.Done()
	watch.Stop()
	e.source.Shutdown()
}

// sink implements record.EventSink.
type sink struct {
	ctx    context.Context
	client Client
}

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Create(s.ctx, e, metav1.CreateOptions{})
}

func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Update(s.ctx, e, metav1.UpdateOptions{})
}

func (s sink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Patch(s.ctx, e.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

// record sends an event about a pod.
func (e *events) record(o event.Event) {
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Pod",
		Namespace:  o.Namespace,
		Name:       o.Pod,
		UID:        types.UID(o.UID),
		FieldPath:  o.FieldPath,
	},
		o.Type, o.Reason, o.Message)
}

// onNode sends an event about the node.
func (e *events) onNode(kind, reason, message string) {
	e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.node, UID: types.UID(e.node)}, kind, reason, message)
}

// Note implements serve.Cluster.
func (c *Cluster) Note(o event.Event) {
	pod := c.pod(o.Namespace, o.Pod)
	if pod == nil || string(pod.UID) != o.UID {
		if pod = c.mirrorOf(o.Namespace, o.Pod); pod == nil {
			return
		}
		o.Pod = pod.Name
		o.UID = string(pod.UID)
	}
	if o.Pull == nil {
		c.events.record(o)
	}
}
