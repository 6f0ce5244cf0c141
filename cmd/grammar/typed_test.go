package grammar

import (
	"strings"
	"testing"
)

func TestFillHint(t *testing.T) {
	for _, tc := range []struct{ hint, rest, want string }{
		{"podrun stop NAME", "-n shop deploy/web", "podrun stop web"},
		{"podrun stop NAME", "deployment web.service", "podrun stop web"},
		{"podrun stop NAME", "", "podrun stop NAME"},
		{"podrun apply FILE", "-f web.yaml", "podrun apply web.yaml"},
		{"create ARGS --dry-run", "a --image=b -o yaml --dry-run=client", "create a --image=b --dry-run"},
		{"create ARGS --dry-run", "", "create … --dry-run"},
		{"tag SOURCE TARGET", "a b", "tag a b"},
		{"docker save TAG", "-t foo .", "docker save foo"},
		{"docker save TAG", ".", "docker save TAG"},
		{"exec NAME -- env A=b COMMAND", "web ls /", "exec web -- env A=b ls /"},
		{"export FILE.tar IMAGE", "nginx", "export FILE.tar nginx"},
		{"tag SOURCE_REF TARGET_REF", "a b:2", "tag docker.io/library/a:latest docker.io/library/b:2"},
		{"tag SOURCE_REF TARGET_REF", "", "tag SOURCE TARGET"},
		{UseImport, "x.tar", "for an archive of docker save: 'podrun image load x.tar'; for a root file system: 'docker import x.tar NAME && docker save NAME | podrun image load -'"},
		{"import ARCHIVE IMPORT_NAME", "./x.tar a:1", "import ./x.tar a:1"},
		{"apply -k KUSTOMIZATION", ".", "apply -k ."},
		{"apply -k KUSTOMIZATION", "build overlays/prod", "apply -k overlays/prod"},
		{"apply -k KUSTOMIZATION", "", "apply -k DIR"},
		{"sudo HOST_COMMAND", "--rootless-netns ls -o x", "sudo ls -o x"},
		{"sudo HOST_COMMAND", "", "sudo COMMAND"},
		{"'docker login REST' or", "ghcr.io -u me -p secret", "'docker login ghcr.io -u me' or"},
		{"'docker login REST' or", "", "'docker login' or"},
	} {
		if got := FillHint(tc.hint, strings.Fields(tc.rest)); got != tc.want {
			t.Errorf("%q with %q: %q, want %q", tc.hint, tc.rest, got, tc.want)
		}
	}
}

func TestWithoutFlag(t *testing.T) {
	for _, tc := range []struct {
		args, name string
		value      bool
		rest, want string
	}{
		{"get web --context prod", "context", true, "get web", "prod"},
		{"get --context=prod web", "context", true, "get web", "prod"},
		{"get --record web", "record", false, "get web", ""},
		{"logs -n5 web", "n", true, "logs web", "5"},
		{"rm -af web", "a", false, "rm -f web", ""},
		{"exec web -- ls -a", "a", false, "exec web -- ls -a", ""},
		{"get --raw -o json", "raw", true, "get -o json", ""},
	} {
		rest, value := WithoutFlag(strings.Fields(tc.args), tc.name, tc.value)
		if strings.Join(rest, " ") != tc.rest || value != tc.want {
			t.Errorf("%q without %s: %q and %q", tc.args, tc.name, rest, value)
		}
	}
}

func TestLikelyDuration(t *testing.T) {
	for given, want := range map[string]string{"5": "5s", "1 hour ago": "1h", "2 days": "48h", "10min": "10m", "abc": "30s or 5m", "": "30s or 5m"} {
		if got := LikelyDuration(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
