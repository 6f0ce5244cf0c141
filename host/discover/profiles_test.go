package discover

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAppArmorProfiles(t *testing.T) {
	m := tree(t, map[string]string{"sys/kernel/security/apparmor/profiles": "docker-default (enforce)\n/usr/bin/man (complain)\na (b) c (unconfined)\n"})
	if got := (node{m}).appArmorProfiles(); !slices.Equal(got, []string{"docker-default", "/usr/bin/man", "a (b) c"}) {
		t.Errorf("got %q", got)
	}
	if got := (node{tree(t, nil)}).appArmorProfiles(); got != nil {
		t.Errorf("without the file: %q", got)
	}
}

func TestReadSeccomp(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.json": `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}`,
		"bad.json":  `{"defaultAction": `, "empty.json": `{}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := machine{ctx: t.Context()}.readSeccomp(dir, []string{"good.json", "bad.json", "empty.json", "none.json", ".", "../out.json", "/etc/passwd"})
	want := map[string]string{"good.json": "", "bad.json": "is not a seccomp profile: unexpected end", "empty.json": "it has no defaultAction",
		"none.json": "no such file", ".": "is not a regular file"}
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Fatalf("got %q", got)
	}
	for name, words := range want {
		if (words == "") != (got[name] == "") || !strings.Contains(got[name], words) {
			t.Errorf("%s: %q, want %q", name, got[name], words)
		}
	}
	if (machine{ctx: t.Context()}).readSeccomp(dir, nil) != nil {
		t.Error("profiles that no pod names")
	}
}
