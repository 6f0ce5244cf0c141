package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/serve/source"
)

// A mirror pod shows a pod of a file in the cluster. Its name is the pod's name followed by the
// node's name, like that of a static pod, because other nodes may have the same file.

func (c *Cluster) mirrorName(pod string) string { return pod + "-" + c.options.NodeName }

// mirrorOf returns the mirror of a pod of a file; nil if there is none.
func (c *Cluster) mirrorOf(namespace, pod string) *corev1.Pod {
	if m := c.pod(namespace, c.mirrorName(pod)); m != nil && isMirror(m) {
		return m
	}
	return nil
}

// LocalName implements serve.Cluster.
func (c *Cluster) LocalName(namespace, pod string) string {
	local, ok := strings.CutSuffix(pod, "-"+c.options.NodeName)
	if m := c.pod(namespace, pod); ok && m != nil && isMirror(m) {
		return local
	}
	return pod
}

// mirrorStatus records the status of a pod that a file defines, for the pod's mirror.
func (c *Cluster) mirrorStatus(pod *corev1.Pod) {
	if m := c.mirrorOf(pod.Namespace, pod.Name); m != nil {
		shown := *pod
		shown.Name = m.Name
		shown.UID = m.UID
		c.statuses.set(&shown)
	}
}

// setFiles records the pods that files define; each of them must have a mirror.
func (c *Cluster) setFiles(pods []source.Pod) {
	c.mu.Lock()
	c.files = pods
	c.mu.Unlock()
	c.filesChanged.Send()
}

// mirrorFiles keeps the mirrors of files' pods until ctx ends.
func (c *Cluster) mirrorFiles(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.filesChanged:
		}
		c.mu.Lock()
		files := c.files
		c.mu.Unlock()
		wanted := map[string]bool{}
		for i := range files {
			pod := c.mirrorPod(files[i].Object)
			wanted[pod.Namespace+"/"+pod.Name] = true
			c.mirror(ctx, pod)
		}
		for _, pod := range c.list() {
			if isMirror(pod) && !wanted[pod.Namespace+"/"+pod.Name] {
				c.deleteMirror(ctx, pod)
			}
		}
	}
}

// mirrorPod returns the mirror of a pod.
func (c *Cluster) mirrorPod(of *corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: c.mirrorName(of.Name), Labels: of.Labels, Annotations: map[string]string{}},
		Spec:       *of.Spec.DeepCopy(),
	}
	for key, value := range of.Annotations {
		pod.Annotations[key] = value
	}
	pod.Spec.NodeName = c.options.NodeName
	// podrun sets the service account by default, but an API server refuses mirrors with a service account.
	pod.Spec.ServiceAccountName = ""
	pod.Spec.DeprecatedServiceAccount = ""
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	// As in the kubelet (applyDefaults in pkg/kubelet/config/common.go), the hash covers the whole pod,
	// because a changed label must reach the cluster, too. Objects of these types can be encoded.
	data, _ := json.Marshal([]any{of.Labels, of.Annotations, of.Spec})
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:16])
	pod.Annotations["kubernetes.io/config.hash"], pod.Annotations["kubernetes.io/config.source"] = hash, "file"
	pod.Annotations[corev1.MirrorPodAnnotationKey] = hash
	return pod
}

// mirror creates a mirror, or replaces an outdated one.
func (c *Cluster) mirror(ctx context.Context, pod *corev1.Pod) {
	if is := c.pod(pod.Namespace, pod.Name); is != nil {
		switch {
		case !isMirror(is):
			c.warnMirror(pod, fmt.Errorf("the API server has another pod of this name"))
			return
		case is.Annotations[corev1.MirrorPodAnnotationKey] == pod.Annotations[corev1.MirrorPodAnnotationKey] && is.DeletionTimestamp == nil:
			return
		}
		c.deleteMirror(ctx, is)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node, err := c.options.Client.Nodes().Get(ctx, c.options.NodeName, metav1.GetOptions{})
	if err == nil {
		// The API server refuses mirrors without an owner.
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true)}}
		_, err = c.options.Client.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.warnMirror(pod, err)
	}
}

// warnMirror reports once why a pod has no mirror: an API server refuses, for example, mirrors that refer
// to ConfigMaps and Secrets.
func (c *Cluster) warnMirror(pod *corev1.Pod, err error) {
	c.node.Engine.WarnOnce(problem.Problem{Object: "pod " + pod.Namespace + "/" + pod.Name, Warning: true,
		Message: "the cluster does not show this pod, which a file defines: " + event.Cut(err.Error()),
		Hint:    "the pod runs on this host nevertheless"})
}

// deleteMirror deletes a mirror at once: it has no containers.
func (c *Cluster) deleteMirror(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	if err := c.deleteObject(ctx, pod); err != nil {
		c.warnMirror(pod, err)
	}
}
