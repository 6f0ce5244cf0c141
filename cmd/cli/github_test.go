package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRepositoryFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("repo/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"repo/sub/pod.yaml", "outside.yaml"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repo := filepath.Join(dir, "repo")
	for _, c := range []struct{ workspace, name, want string }{
		{repo, "repo/sub/pod.yaml", "sub/pod.yaml"},
		{repo, filepath.Join(repo, "sub", "pod.yaml"), "sub/pod.yaml"},
		{repo, "outside.yaml", filepath.Join(dir, "outside.yaml")},
		{"", "repo/sub/pod.yaml", filepath.Join(repo, "sub", "pod.yaml")},
		{repo, "repo/sub", ""},
		{repo, "-", ""},
		{repo, "", ""},
		{repo, "generated manifest", ""},
		{repo, "https://example.com/pod.yaml", ""},
	} {
		t.Setenv("GITHUB_WORKSPACE", c.workspace)
		if got := repositoryFile(c.name); got != c.want {
			t.Errorf("%q in workspace %q: %q, want %q", c.name, c.workspace, got, c.want)
		}
	}
}
