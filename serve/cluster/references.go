package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// The kinds of objects to which pods refer.
const (
	configMapKind    = "configmap"
	secretKind       = "secret"
	claimKind        = "persistentvolumeclaim"
	volumeKind       = "persistentvolume"
	runtimeClassKind = "runtimeclass"
)

// reference identifies an object to which a pod refers.
type reference struct{ kind, namespace, name string }

// references reads the objects to which the pods of this node refer, each by its name: the authorization
// of nodes permits nothing else. It reads an object as long as a pod of this node refers to it.
type references struct {
	client  Client
	changed func()

	mu      sync.Mutex
	entries map[reference]*entry
	closed  bool
	loops   sync.WaitGroup
}

// entry is one object.
type entry struct {
	users map[types.UID]bool
	stop  context.CancelFunc
	// known is true when the API server has answered; object is nil if it does not have the object.
	known  bool
	object runtime.Object
}

func newReferences(client Client, changed func()) *references {
	return &references{client: client, changed: changed, entries: map[reference]*entry{}}
}

// use replaces the objects to which a pod refers. It returns the objects that the API server has
// sent, and the first one that it has not sent yet.
func (r *references) use(uid types.UID, wanted []reference) (known map[reference]runtime.Object, missing *reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	needed := map[reference]bool{}
	known = map[reference]runtime.Object{}
	for _, ref := range wanted {
		needed[ref] = true
		e := r.entries[ref]
		if e == nil {
			if e = r.begin(ref); e == nil {
				return known, &ref
			}
		}
		e.users[uid] = true
		switch {
		case e.known && e.object != nil:
			known[ref] = e.object
		case !e.known && missing == nil:
			missing = &ref
		}
	}
	for ref, e := range r.entries {
		if e.users[uid] && !needed[ref] {
			r.leave(ref, e, uid)
		}
	}
	return known, missing
}

// release ends the use of all objects by a pod.
func (r *references) release(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref, e := range r.entries {
		r.leave(ref, e, uid)
	}
}

// leave removes a pod from the users of an object. r.mu must be held.
func (r *references) leave(ref reference, e *entry, uid types.UID) {
	if !e.users[uid] {
		return
	}
	if delete(e.users, uid); len(e.users) == 0 {
		e.stop()
		delete(r.entries, ref)
	}
}

// close ends all reads.
func (r *references) close() {
	r.mu.Lock()
	r.closed = true
	for ref, e := range r.entries {
		e.stop()
		delete(r.entries, ref)
	}
	r.mu.Unlock()
	r.loops.Wait()
}

// begin starts to read an object. It returns nil after close. r.mu must be held.
func (r *references) begin(ref reference) *entry {
	if r.closed {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &entry{users: map[types.UID]bool{}, stop: stop}
	r.entries[ref] = e
	r.loops.Go(func() {
		switch ref.kind {
		case claimKind, volumeKind:
			r.poll(ctx, ref, e)
		default:
			r.follow(ctx, ref, e)
		}
	})
	return e
}

// set records the state of an object. nil means that the API server does not have it.
func (r *references) set(e *entry, object runtime.Object) {
	r.mu.Lock()
	changed := !e.known || !equality.Semantic.DeepEqual(e.object, object)
	e.known = true
	e.object = object
	r.mu.Unlock()
	if changed {
		r.changed()
	}
}

// follow reads an object until ctx ends.
func (r *references) follow(ctx context.Context, ref reference, e *entry) {
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, ref.name).String()
	var lw *cache.ListWatch
	var kind runtime.Object
	switch ref.kind {
	case configMapKind:
		lw, kind = listWatch(r.client.ConfigMaps(ref.namespace), one), &corev1.ConfigMap{}
	case secretKind:
		lw, kind = listWatch(r.client.Secrets(ref.namespace), one), &corev1.Secret{}
	default:
		lw, kind = listWatch(r.client.RuntimeClasses(), one), &nodev1.RuntimeClass{}
	}
	take := func(o any) {
		if object, ok := o.(metav1.Object); ok && object.GetName() == ref.name {
			r.set(e, o.(runtime.Object))
		}
	}
	informer := newInformer(r.client, lw, kind)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, now any) { take(now) },
		DeleteFunc: func(any) { r.set(e, nil) }})
	r.loops.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			// The handlers may run later.
			if found, _, _ := informer.GetStore().GetByKey(keyOf(ref)); found == nil {
				r.set(e, nil)
			}
		}
	})
	informer.RunWithContext(ctx)
}

func keyOf(ref reference) string {
	if ref.namespace == "" {
		return ref.name
	}
	return ref.namespace + "/" + ref.name
}

// The intervals at which podrun reads claims and volumes: nodes may get, but not watch them.
const (
	pollUnknown = 2 * time.Second
	pollKnown   = time.Minute
)

// poll reads a claim or a volume until ctx ends.
func (r *references) poll(ctx context.Context, ref reference, e *entry) {
	for {
		var object runtime.Object
		var err error
		bound := true
		if ref.kind == claimKind {
			var claim *corev1.PersistentVolumeClaim
			if claim, err = r.client.Claims(ref.namespace).Get(ctx, ref.name, metav1.GetOptions{}); err == nil {
				object, bound = claim, claim.Spec.VolumeName != ""
			}
		} else {
			var volume *corev1.PersistentVolume
			if volume, err = r.client.Volumes().Get(ctx, ref.name, metav1.GetOptions{}); err == nil {
				object = volume
			}
		}
		every := pollKnown
		if err != nil || !bound {
			every = pollUnknown
		}
		if err == nil || apierrors.IsNotFound(err) {
			r.set(e, object)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}
