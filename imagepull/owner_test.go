package imagepull

import (
	"errors"
	"strings"
	"testing"
)

// TestHintForOwners checks the hint for an image with files of IDs that an ordinary user does not have. The message is
// containerd's.
func TestHintForOwners(t *testing.T) {
	const message = `failed to extract layer sha256:1: mount callback failed: failed to Lchown "/tmp/containerd-mount1/home/app" for UID 1000, GID 1000: lchown /tmp/containerd-mount1/home/app: invalid argument (Hint: try increasing the number of subordinate IDs in /etc/subuid and /etc/subgid)`
	e := &PullError{Err: errors.New(message)}
	if hint := e.hint(); !strings.Contains(hint, "subordinate IDs") {
		t.Errorf("the hint is %q", hint)
	}
	if other := (&PullError{Err: errors.New("lchown x: operation not permitted")}).hint(); strings.Contains(other, "subordinate IDs") {
		t.Errorf("the hint of another error is %q", other)
	}
}
