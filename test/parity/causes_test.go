package parity

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cause is a reason why podrun's requests or files differ from the kubelet's. Its name is the same
// as in docs/kubelet-differences.md.
type cause struct {
	name string
	// goldens are the goldens that the cause affects; nil means any.
	goldens []string
	// lines are the differences that the cause explains, in the format of difference.String.
	lines *regexp.Regexp
}

// touch is a cause that explains a difference in a golden.
type touch struct{ cause, golden string }

const examples = "kubernetes__content__en__examples__pods__"

// causes contains all causes of differences, of which there must be at most eleven. A difference
// without a cause is an error.
var causes = []cause{
	{
		name: "marks of static pods",
		lines: regexp.MustCompile(`^(sandbox|container \S+): only the kubelet: \S*annotations\.kubernetes\.io/config\.` +
			`|^files: only the kubelet: volumes/kubernetes\.io~downward-api/\S+/annotations text ".*kubernetes\.io/config\.` +
			`|^files: only podrun: volumes/kubernetes\.io~downward-api/\S+/annotations text `),
	},
	{
		name: "marks and records of podrun",
		lines: regexp.MustCompile(`^(sandbox|container \S+): only podrun: annotations\.podrun\.dev/` +
			`|^files: only podrun: (pod\.yaml|events\.jsonl|plugins/podrun\.dev~\S+) `),
	},
	{
		name:    "the API server's part",
		goldens: []string{"18-env", "20-hostpath", examples + "inject__dapi-envars-pod"},
		lines: regexp.MustCompile(`^container \S+: only the kubelet: envs\[\d+\] = "(SA|MY_POD_SERVICE_ACCOUNT)="$` +
			`|^container \S+: only podrun: envs\[\d+\] = "(SA|MY_POD_SERVICE_ACCOUNT)=default"$` +
			`|^container \S+: only podrun: mounts\[2\]\.recursive_read_only = "true"$`),
	},
	{
		name:    "no wrapped emptyDir",
		goldens: []string{"22-downward", examples + "inject__dapi-volume", examples + "inject__dapi-volume-resources"},
		lines:   regexp.MustCompile(`^files: only the kubelet: plugins/kubernetes\.io~empty-dir(/wrapped_\S+)? `),
	},
	{
		name:    "images from the start",
		goldens: []string{examples + "init-containers", examples + "multi-container__resources", examples + "multi-container__shared-volume"},
		lines: regexp.MustCompile(`^image nginx:\S+: only podrun: |^(images|pulls): only podrun: .*"nginx[:"]` +
			`|^events spec\.containers\{nginx\}: only podrun: Normal Pull(ing|ed) `),
	},
	{
		name:    "containers created early",
		goldens: []string{examples + "multi-container__resources", examples + "restart-policy__restart-all-containers"},
		lines: regexp.MustCompile(`^calls: only podrun: CreateContainer (log-shipper|watcher-sidecar)$` +
			`|^container (log-shipper|watcher-sidecar)/0: only podrun: ` +
			`|^files: only podrun: containers/(log-shipper|watcher-sidecar)(/<RANDOM>)? `),
	},
	{
		name:    "permanent image errors fail immediately",
		goldens: []string{invalidImage},
		lines: regexp.MustCompile(`^pod: only podrun: refused: .*Failed to apply default image tag "Registry\.Example/UPPER:1"` +
			`|^events spec\.containers\{invalid\}: only the kubelet: ` +
			`|^events spec\.containers\{broken\}: only the kubelet: (Normal BackOff |Warning Failed .*: Error: ImagePullBackOff$)` +
			`|^image registry\.example/broken:1: only the kubelet: ImageStatus$`),
	},
	{
		name:    "an ended pod keeps its control group",
		goldens: []string{"30-never"},
		lines:   regexp.MustCompile(`^cgroup: only podrun: `),
	},
	{
		name:    "seccomp profiles are checked at admission",
		goldens: []string{"16-securitycontext-container", examples + "security__seccomp__ga__audit-pod", examples + "security__seccomp__ga__fine-pod"},
		lines:   regexp.MustCompile(`^pod: only podrun: refused: .*seccompProfile\.localhostProfile: cannot load seccomp profile "[a-z/.-]+": .*no such file`),
	},
	{
		name:    "image users are checked at admission",
		goldens: []string{"37-nonroot-refused"},
		lines:   regexp.MustCompile(`^pod: only podrun: refused: .*: container has runAsNonRoot and image will run as root `),
	},
	{
		name:    "unknown resources are refused",
		goldens: []string{examples + "resource__extended-resource-pod"},
		lines:   regexp.MustCompile(`^pod: only podrun: refused: .*this host has no example\.com/dongle`),
	},
}

// explained reports whether a cause explains a difference, and records the cause.
func (s *tally) explained(golden string, d difference) bool {
	for _, c := range causes {
		if (c.goldens == nil || slices.Contains(c.goldens, golden)) && c.lines.MatchString(d.String()) {
			if s.seen == nil {
				s.seen = map[touch]bool{}
			}
			s.seen[touch{c.name, golden}] = true
			return true
		}
	}
	return false
}

// allSeen checks that each cause affects the goldens that it names.
func (s *tally) allSeen(t *testing.T) {
	t.Helper()
	for _, c := range causes {
		for _, golden := range c.goldens {
			if slices.Contains(s.ran, golden) && !s.seen[touch{c.name, golden}] {
				t.Errorf("%s: the cause %q no longer explains a difference: remove it", golden, c.name)
			}
		}
	}
}

func TestCauses(t *testing.T) {
	if len(causes) > 11 {
		t.Errorf("%d causes, want at most eleven", len(causes))
	}
	page, err := os.ReadFile("../../docs/kubelet-differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Measured\n")
	if !ok {
		t.Fatal("docs/kubelet-differences.md has no section Measured")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\* \|`).FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	var names []string
	for _, c := range causes {
		names = append(names, c.name)
		for _, golden := range c.goldens {
			if short := strings.TrimPrefix(golden, examples); !strings.Contains(section, "`"+short+"`") {
				t.Errorf("the page does not name the golden %s of the cause %q", short, c.name)
			}
		}
	}
	if !slices.Equal(listed, names) {
		t.Errorf("docs/kubelet-differences.md lists %q, the test has %q", listed, names)
	}
}
