// Package parity compares, field by field, the requests that podrun and a kubelet send to a
// runtime for the same pods. Any difference that is not in the table "documented" is an error.
package parity

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/dns"
)

// documented lists the intended differences. field is a substring of the field's path.
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
						// The kubelet refused the pod, so it sent no requests to the runtime.
						refused++
						return
					}
					compared++
					kubelets := g.kubelets()
					total.add(compare(t, kubelets, podruns(t, pod, kubelets)))
					switch {
					case *update && set == "fake":
						writeKept(t, name, manifestOf(t, dir, set, name), kubelets, readRecording(t, file).tracks())
					case *update && set == "real":
						keepReal(t, name, manifestOf(t, dir, set, name), readRecording(t, file).tracks())
					}
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

// words maps the words in angle brackets of the recording to this test's values. Unlike in podrun,
// the name of a static pod ends with the name of the node.
func words(pod *corev1.Pod) *strings.Replacer {
	name, _ := dns.Hostname(&corev1.Pod{ObjectMeta: pod.ObjectMeta}, "", false)
	return strings.NewReplacer("<UID>", uid, "<POD>", pod.Name, "<POD:63>", name.Host,
		"<PODIP>", podIP, "<HOSTIP>", hostIP, "<NODE>", node, "<RANDOM>", random, "<ROOT>", root, "<LOGS>", logs)
}

// kubelets lists the fields that a recording contains, such as "sandbox.labels.app".
func (g golden) kubelets() map[string]string {
	out := map[string]string{}
	flatten("sandbox", g.Sandboxes[0].Config, out)
	for name, attempts := range g.Containers {
		for i, config := range attempts {
			flatten(fmt.Sprintf("container %s/%d", name, i), config, out)
		}
	}
	if hosts, ok := g.Files["etc-hosts"]; ok {
		out["etc-hosts"] = hosts.Text
	}
	return out
}

// containerField matches the name and the attempt in the field of a container.
var containerField = regexp.MustCompile(`^container (\S+)/(\d+)\.`)

// podruns lists the fields that podrun would send for the pod's sandbox and the
// containers that the kubelet created.
func podruns(t *testing.T, pod *corev1.Pod, kubelets map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	p := planPod(t, pod)
	flatten("sandbox", asRecorded(t, p.sandbox.Config), out)
	done := map[string]bool{}
	for field := range kubelets {
		m := containerField.FindStringSubmatch(field)
		if m == nil || done[m[0]] {
			continue
		}
		done[m[0]] = true
		attempt, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		flatten(strings.TrimSuffix(m[0], "."), containerAsRecorded(t, p.container(t, m[1], attempt)), out)
	}
	if _, ok := kubelets["etc-hosts"]; ok {
		out["etc-hosts"] = dns.EtcHosts(pod, p.name, []string{podIP}, facts().EtcHosts)
	}
	return out
}

func compare(t *testing.T, kubelets, podruns map[string]string) score {
	t.Helper()
	all := maps.Clone(kubelets)
	maps.Copy(all, podruns)
	var s score
	for _, field := range slices.Sorted(maps.Keys(all)) {
		k, inKubelet := kubelets[field]
		p, inPodrun := podruns[field]
		switch {
		case inKubelet && inPodrun && k == p:
			s.equal++
		case isDocumented(field):
			s.documented++
		default:
			s.different++
			t.Errorf("%s: kubelet %s, podrun %s", field, shown(k, inKubelet), shown(p, inPodrun))
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
