package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/wait"
)

// The kubelet's intervals at which it renews the lease and examines the node
// (nodeLeaseDurationSeconds / 4, nodeStatusUpdateFrequency), and at which it reports an unchanged
// node (nodeStatusReportFrequency).
const (
	leaseSeconds   = 40
	renewEvery     = leaseSeconds * time.Second / 4
	firstNodeRetry = time.Second
	reportEvery    = 5 * time.Minute
	nodeTimeout    = 10 * time.Second
	// Reading the facts lists the runtime's pods.
	readFactsEvery = 30 * time.Second
)

// keepNode registers the node, and renews its status and its lease until ctx ends.
func (c *Cluster) keepNode(ctx context.Context) {
	n := &nodeObject{cluster: c}
	retry := firstNodeRetry
	for {
		bounded, cancel := context.WithTimeout(ctx, nodeTimeout)
		err := n.renew(bounded)
		cancel()
		c.link.note(ctx, err)
		pause := renewEvery
		if err == nil {
			c.joinOnce.Do(func() { close(c.joined) })
			retry = firstNodeRetry
		} else {
			pause, retry = retry, wait.Next(retry, firstNodeRetry, renewEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// nodeObject is the Node object of this host. Only one goroutine uses it.
type nodeObject struct {
	cluster *Cluster
	// object is the API server's object; nil before the registration.
	object   *corev1.Node
	facts    host.Facts // from the last successful read, which was at the time read
	read     time.Time
	reported time.Time // when the status was last sent
	images   imageList
}

// renew registers the node if necessary, and then updates its status and its lease.
func (n *nodeObject) renew(ctx context.Context) error {
	down := n.cluster.node.RuntimeDown()
	if n.read.IsZero() || time.Since(n.read) >= readFactsEvery {
		switch facts, err := n.cluster.node.Engine.HostFacts(ctx); {
		case err == nil:
			n.facts = facts
			n.read = time.Now()
		case down == "":
			down = err.Error()
		}
	}
	if n.object == nil {
		if err := n.register(ctx); err != nil {
			return err
		}
	}
	if err := n.update(ctx, down); err != nil {
		if apierrors.IsNotFound(err) {
			n.object = nil // deleted: register it again
		}
		return err
	}
	return n.renewLease(ctx)
}

// register creates the Node object, or takes over the existing one of this host.
func (n *nodeObject) register(ctx context.Context) error {
	o := n.cluster.options
	nodes := o.Client.Nodes()
	object, err := nodes.Get(ctx, o.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if n.facts.NodeName == "" {
			return errors.New("cannot register the node before the container runtime has answered")
		}
		object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.NodeName, Labels: n.facts.NodeLabels}, Spec: corev1.NodeSpec{Taints: o.Taints}}
		object.Status = n.cluster.nodeStatus(n.facts, n.images.read(ctx, n.cluster), "", object.Status, time.Now())
		if object, err = nodes.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("register node %s: %w", o.NodeName, err)
		}
		n.object = object
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", o.NodeName, err)
	}
	if err := n.checkOwner(ctx, object); err != nil {
		return err
	}
	labels := map[string]string{}
	for key, value := range n.facts.NodeLabels {
		if object.Labels[key] != value {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		if err != nil {
			return err
		}
		if object, err = nodes.Patch(ctx, o.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("set the labels of node %s: %w", o.NodeName, err)
		}
	}
	n.object = object
	n.reported = time.Time{}
	return nil
}

// checkOwner refuses a Node object of another machine whose kubelet is alive.
func (n *nodeObject) checkOwner(ctx context.Context, object *corev1.Node) error {
	theirs, mine := object.Status.NodeInfo.MachineID, machineID()
	if theirs == "" || mine == "" || theirs == mine {
		return nil
	}
	lease, err := n.cluster.options.Client.Leases(corev1.NamespaceNodeLease).Get(ctx, object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if at := lease.Spec.RenewTime; at != nil && time.Since(at.Time) < leaseSeconds*time.Second {
		return fmt.Errorf("node %s belongs to another machine, whose kubelet is running (machine ID %s): use another --hostname-override and its credentials", object.Name, theirs)
	}
	return nil
}

// update sends the node's status if it has changed, or if it has not been sent for a while.
func (n *nodeObject) update(ctx context.Context, down string) error {
	now := time.Now()
	want := n.cluster.nodeStatus(n.facts, n.images.read(ctx, n.cluster), down, n.object.Status, now)
	if now.Sub(n.reported) < reportEvery && sameNodeStatus(n.object.Status, want) {
		return nil
	}
	// The kubelet sends these events, too.
	if was, is := readyOf(n.object.Status), readyOf(want); was != is && is != "" {
		reason := "NodeReady"
		if is != corev1.ConditionTrue {
			reason = "NodeNotReady"
		}
		n.cluster.events.onNode(corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", n.object.Name, reason))
	}
	patch, err := patchOf(corev1.Node{Status: n.object.Status}, corev1.Node{Status: want})
	if err != nil {
		return err
	}
	object, err := n.cluster.options.Client.Nodes().Patch(ctx, n.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("update the status of node %s: %w", n.object.Name, err)
	}
	n.object = object
	n.reported = now
	return nil
}

func readyOf(s corev1.NodeStatus) corev1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// sameNodeStatus reports whether two statuses differ in nothing but the times of heartbeats.
func sameNodeStatus(a, b corev1.NodeStatus) bool {
	still := func(s corev1.NodeStatus) corev1.NodeStatus {
		s = *s.DeepCopy()
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return s
	}
	return equality.Semantic.DeepEqual(still(a), still(b))
}

// renewLease renews the node's lease, by which the control plane knows that the node is alive.
func (n *nodeObject) renewLease(ctx context.Context) error {
	leases := n.cluster.options.Client.Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, n.object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.object.Name, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.object.Name, UID: n.object.UID}}}}
		lease.Spec = coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(n.object.Name),
			LeaseDurationSeconds: ptr.To[int32](leaseSeconds),
			RenewTime:            &now,
		}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else if err == nil {
		lease.Spec.HolderIdentity = ptr.To(n.object.Name)
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](leaseSeconds)
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", n.object.Name, err)
	}
	return nil
}
