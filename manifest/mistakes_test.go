package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/manifest/input"
)

// TestMistakes covers values that the API accepts, but that cannot have the effect that the
// author intended.
func TestMistakes(t *testing.T) {
	const caps = "securityContext.capabilities."
	for name, tc := range map[string]struct {
		container string // fields of the container
		want      []string
	}{
		"names of capabilities": {container: "    securityContext: {capabilities: {add: [NET_ADMIN, net_bind_service, ALL], drop: [all, SETPCAP]}}\n"},
		"a prefix": {container: "    securityContext: {capabilities: {drop: [CAP_NET_RAW, ALL], add: [cap_sys_time]}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0]." + caps + "add[0]: \"cap_sys_time\" is not the name of a capability: the container runtime may ignore it (did you mean SYS_TIME?)",
			"f:8: Pod default/a: spec.containers[0]." + caps + "drop[0]: \"CAP_NET_RAW\" is not the name of a capability: the container runtime may ignore it (did you mean NET_RAW?)"}},
		"unknown names": {container: "    securityContext: {capabilities: {drop: [NET_RWA, NETRAW, FLY]}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0]." + caps + "drop[0]: \"NET_RWA\" is not the name of a capability: the container runtime may ignore it (did you mean NET_RAW?)",
			"f:8: Pod default/a: spec.containers[0]." + caps + "drop[1]: \"NETRAW\" is not the name of a capability: the container runtime may ignore it (did you mean NET_RAW?)",
			"f:8: Pod default/a: spec.containers[0]." + caps + "drop[2]: \"FLY\" is not the name of a capability: the container runtime may ignore it"}},
		"of an init container": {container: "  initContainers:\n  - name: i\n    image: i\n    securityContext: {capabilities: {drop: [CAP_ALL]}}\n", want: []string{
			"f:11: Pod default/a: spec.initContainers[0]." + caps + "drop[0]: \"CAP_ALL\" is not the name of a capability: the container runtime may ignore it (did you mean ALL?)"}},

		"no limit, zero, and 1Mi": {container: "    resources: {limits: {memory: 0}}\n  initContainers:\n  - name: i\n    image: i\n    resources: {limits: {memory: 1Mi}}\n"},
		"milli-bytes": {container: "    resources: {limits: {memory: 64m}, requests: {memory: 0}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].resources.limits[memory]: 64m is less than 1Mi: no container can start with this limit (did you mean 64Mi?)",
			"f:8: Pod default/a: spec.containers[0].resources.limits[memory]: fractional byte value \"64m\" is invalid, must be an integer"}},
		"bytes": {container: "    resources: {limits: {memory: 64}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].resources.limits[memory]: 64 is less than 1Mi: no container can start with this limit (did you mean 64Mi?)"}},
		"kilobytes": {container: "    resources: {limits: {memory: 512Ki}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].resources.limits[memory]: 512Ki is less than 1Mi: no container can start with this limit (write at least 1Mi)"}},
		"a request": {container: "    resources: {requests: {memory: 64m}}\n  initContainers:\n  - name: i\n    image: i\n    resources: {requests: {memory: 1000}}\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].resources.requests[memory]: fractional byte value \"64m\" is invalid, must be an integer",
			"f:12: Pod default/a: spec.initContainers[0].resources.requests[memory]: 1k is less than 1Mi (write at least 1Mi)"}},
		"of the pod": {container: "  resources: {limits: {memory: 100m}}\n", want: []string{
			"f:8: Pod default/a: spec.resources.limits[memory]: 100m is less than 1Mi: no container can start with this limit (did you mean 100Mi?)"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Load([]input.Source{{Name: "f", Data: []byte(head + tc.container)}}, Options{})
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
