package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func (c config) client() (*kubernetes.Clientset, error) {
	loaded, err := clientcmd.BuildConfigFromFlags("", c.file("admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(loaded)
}

// awaitNode waits until the node of the cluster in -dir is ready and has no taint that prevents
// pods from running on it.
func awaitNode(ctx context.Context, c config, timeout time.Duration) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := "it does not exist"
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
		switch {
		case err == nil && ready(node) && len(node.Spec.Taints) == 0:
			return nil
		case err == nil:
			last = fmt.Sprintf("conditions %v, taints %v", node.Status.Conditions, node.Spec.Taints)
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s is not ready: %s", c.node, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ready(node *v1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}
