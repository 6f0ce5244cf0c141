package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// listed is a typed client of one kind.
type listed[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// listWatch returns the calls with which an informer reads the objects that match a field selector. ""
// selects all.
func listWatch[L runtime.Object](client listed[L], selector string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.Watch(ctx, o)
		},
	}
}

// newInformer returns an informer that does not run yet. It drops managed fields, because podrun
// does not use them, and they make up a third of an object.
func newInformer(client Client, lw *cache.ListWatch, kind runtime.Object) cache.SharedIndexInformer {
	i := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), kind, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	// Both calls fail only for an informer that runs already.
	_ = i.SetTransform(withoutManagedFields)
	_ = i.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	return i
}

func withoutManagedFields(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// isMirror reports whether a pod of the API server is the mirror of a pod that a file defines.
func isMirror(pod *corev1.Pod) bool { return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" }
