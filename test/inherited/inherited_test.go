package inherited

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKept(t *testing.T) {
	for name, want := range map[string]struct{ plain, onRuntime bool }{
		"PATH":                       {true, true},
		"HOME":                       {true, true},
		"GOCACHE":                    {true, true},
		"PODRUN_TEST_IMAGE":          {true, true},
		"PODRUN_CRASH_SEED":          {true, true},
		"PODRUN_CGROUP_ROOT":         {false, true},
		"CONTAINER_RUNTIME_ENDPOINT": {false, true},
		"PODRUN_NAMESPACE":           {false, false},
		"DOCKER_CONFIG":              {false, false},
		"LC_ALL":                     {false, false},
		"TZ":                         {false, false},
	} {
		if got := kept(name, false); got != want.plain {
			t.Errorf("%s without a runtime: kept: %v", name, got)
		}
		if got := kept(name, true); got != want.onRuntime {
			t.Errorf("%s with a runtime: kept: %v", name, got)
		}
	}
}

// TestTempDir checks that a directory below one of mode 0700 is replaced.
func TestTempDir(t *testing.T) {
	private, err := filepath.EvalSymlinks(t.TempDir()) // its parent has mode 0700
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(private, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := tempDir(below, "/"); os.Geteuid() == 0 && got != "/" {
		t.Errorf("tempDir returned %s, which other users cannot reach", got)
	}
	if got := tempDir(below, filepath.Join(private, "missing")); got != below {
		t.Errorf("without an alternative, tempDir returned %s", got)
	}
}
