package imagepull

import (
	"testing"
	"time"
)

// TestForgetPod checks that the state of a pod that was removed from memory is read from disk
// again.
func TestForgetPod(t *testing.T) {
	p := &Puller{opt: Options{BackOffDir: t.TempDir()}, known: map[string]bool{}}
	key, other := backOffKey{UID: "u1", Ref: "image"}, backOffKey{UID: "u2", Ref: "image"}
	for _, k := range []backOffKey{key, other} {
		p.left(k)
		p.fail(k, Image{Name: "image", Containers: []Container{{Name: "app"}}}, &PullError{Reason: "ErrImagePull"})
	}
	p.Forget("u1")
	if p.known["u1"] || !p.known["u2"] || len(p.backOff.entries) != 1 {
		t.Errorf("known are %v, %d back-offs", p.known, len(p.backOff.entries))
	}
	if left := p.left(key); left <= 0 || left > 10*time.Second {
		t.Errorf("after ForgetPod, the pod backs off for %s", left)
	}
}
