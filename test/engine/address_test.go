package engine

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
)

// TestRequestedAddress checks that podrun refuses a pod that requests addresses on another runtime,
// because only the embedded runtime does not ignore the annotation.
func TestRequestedAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := strings.Replace(one("Always"), "{name: web}", "{name: web, annotations: {podrun.dev/ip: 10.64.3.7}}", 1)
	wantErr(t, r.apply(text).Err, problem.Refused, "metadata.annotations[podrun.dev/ip]", "only the embedded runtime")
}
