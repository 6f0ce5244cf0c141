// Package parity compares what podrun asks of a runtime with what a kubelet
// asked for the same pods, field by field. Every difference is an error but
// those listed in documented.
package parity

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/dns"
)

// documented are the differences that podrun means to have, by a part of the
// field's path.
var documented = []struct{ field, why string }{
	{".annotations.kubernetes.io/config.", "the kubelet marks static pods with where it read them; podrun's pods are not static pods"},
	{".annotations.podrun.dev/", "podrun marks its sandboxes, to touch no others"},
}

// score counts leaves of messages.
type score struct{ equal, documented, different int }

func (s *score) add(more score) {
	s.equal += more.equal
	s.documented += more.documented
	s.different += more.different
}

func TestParity(t *testing.T) {
	dir := shared(t)
	for _, set := range []string{"fake", "real", "corpus"} {
		t.Run(set, func(t *testing.T) {
			var total score
			compared, refused := 0, 0
			for _, file := range recordings(t, dir, set) {
				name := strings.TrimSuffix(filepath.Base(file), ".json")
				t.Run(name, func(t *testing.T) {
					pod := readPod(t, manifestOf(t, dir, set, name))
					g := readGolden(t, file, words(pod))
					if len(g.Sandboxes) == 0 {
						refused++ // by the kubelet: nothing was asked of the runtime
						return
					}
					compared++
					total.add(comparePod(t, pod, g))
				})
			}
			all := total.equal + total.different
			t.Logf("%s: %d pods (%d more were refused by the kubelet): %d of %d fields are the kubelet's, %d more differ as documented",
				set, compared, refused, total.equal, all, total.documented)
			if total.equal == 0 {
				t.Error("nothing was compared")
			}
		})
	}
}

// words are the recording's placeholders and their values here. The name of a
// static pod ends in the node's, podrun's does not.
func words(pod *corev1.Pod) *strings.Replacer {
	name, _ := dns.Hostname(&corev1.Pod{ObjectMeta: pod.ObjectMeta}, "", false)
	return strings.NewReplacer("<UID>", uid, "<POD>", pod.Name, "<POD:63>", name.Host,
		"<PODIP>", podIP, "<HOSTIP>", hostIP, "<NODE>", node, "<RANDOM>", random, "<ROOT>", root, "<LOGS>", logs)
}

func comparePod(t *testing.T, pod *corev1.Pod, g golden) score {
	t.Helper()
	p := planPod(t, pod)
	var total score
	total.add(compare(t, "sandbox", g.Sandboxes[0].Config, asRecorded(t, p.sandbox.Config)))
	for _, name := range slices.Sorted(maps.Keys(g.Containers)) {
		for attempt, want := range g.Containers[name] {
			config := p.container(t, name, attempt)
			var env []any
			for _, kv := range config.Envs {
				env = append(env, kv.Key+"="+string(kv.Value))
			}
			slices.SortStableFunc(env, func(a, b any) int {
				x, _, _ := strings.Cut(a.(string), "=")
				y, _, _ := strings.Cut(b.(string), "=")
				return strings.Compare(x, y)
			})
			got := asRecorded(t, config)
			if got["envs"] = env; env == nil {
				delete(got, "envs")
			}
			total.add(compare(t, fmt.Sprintf("container %s/%d", name, attempt), want, got))
		}
	}
	if want, ok := g.Files["etc-hosts"]; ok {
		got := dns.EtcHosts(pod, p.name, []string{podIP}, facts().EtcHosts)
		total.add(compare(t, "etc-hosts", map[string]any{"text": want.Text}, map[string]any{"text": got}))
	}
	return total
}

func compare(t *testing.T, what string, want, got map[string]any) score {
	t.Helper()
	wanted, have := map[string]string{}, map[string]string{}
	flatten("", want, wanted)
	flatten("", got, have)
	all := maps.Clone(wanted)
	maps.Copy(all, have)
	var s score
	for _, field := range slices.Sorted(maps.Keys(all)) {
		w, inKubelet := wanted[field]
		h, inPodrun := have[field]
		switch {
		case inKubelet && inPodrun && w == h:
			s.equal++
		case isDocumented(field):
			s.documented++
		default:
			s.different++
			t.Errorf("%s%s: kubelet %s, podrun %s", what, field, shown(w, inKubelet), shown(h, inPodrun))
		}
	}
	return s
}

func isDocumented(field string) bool {
	for _, d := range documented {
		if strings.Contains(field, d.field) {
			return true
		}
	}
	return false
}

func shown(v string, there bool) string {
	if !there {
		return "nothing"
	}
	return fmt.Sprintf("%q", v)
}
