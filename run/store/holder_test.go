package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
)

// TestShownHolder checks that messages do not quote the arguments that an older podrun wrote into a
// file.
func TestShownHolder(t *testing.T) {
	for who, want := range map[string]string{
		NewHolder("podrun delete web", "ab"):                      "process " + strings.Fields(NewHolder("", ""))[1] + " (podrun delete web)",
		"process 7 (podrun run -e PASSWORD=hunter2 busybox) [ab]": "process 7 (podrun run)",
		"process 7 (podrun exec web hunter2) [ab]":                "process 7 (podrun exec)",
		"process 7 (podrun --config hunter2 run x) [ab]":          "process 7 (podrun)",
		"process 7 (podrun-node --kubeconfig hunter2) [ab]":       "process 7 (podrun-node)",
		"process 7 (podrun run x sh -c [ named hunter2 ]) [ab]":   "process 7 (podrun run)",
		"podrun run -e PASSWORD=hunter2":                          "podrun run",
		"process 7 (podrun run)":                                  "process 7 (podrun run)",
		"process 7 (podrun hunter2=1) [ab]":                       "process 7 (podrun)",
		"hunter2":                                                 "another podrun",
		"":                                                        "another podrun",
	} {
		if got := ShownHolder(who); got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
		if !strings.Contains(who, holderMark+" a") && isOld(ShownHolder(who)) {
			t.Errorf("%s would be rewritten repeatedly", who)
		}
	}
}

// TestRewriteHolders checks that the first command removes the arguments that an older podrun wrote,
// also from files that are locked at first, and does not change other files.
func TestRewriteHolders(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	runtimeLock := filepath.Join(layout.RootDir, "runtime", "lock")
	secret := "process 7 (podrun run -e PASSWORD=hunter2 busybox) [ab]"
	web, held := identity.Pod{Namespace: "default", Name: "web"}, identity.Pod{Namespace: "default", Name: "held"}
	if err := RewriteHolders(layout, runtimeLock); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(string(layout.Locks())); err == nil {
		t.Error("a new root directory was changed")
	}
	files := map[string]string{
		layout.Locks().Node(): secret, runtimeLock: "podrun run -e PASSWORD=hunter2", layout.Serve().Lock(): "process 7 (podrun serve hunter2) [ab]", layout.Locks().Workloads(): "",
		layout.Locks().Pod(web): secret + strings.Repeat("hunter2", maxHolder), layout.Locks().Pod(held): secret, layout.Locks().Services(): NewHolder("podrun apply web.yaml", "cd"),
		layout.Owner(web): `{"schema":1,"uid":"u","counter":3,"holder":"` + secret + `"}`, layout.Owner(held): `{"uid":"u","holder":"` + secret + `"}`,
		layout.Owner(identity.Pod{Namespace: "default", Name: "newer"}): `{"schema":99,"holder":"process 8 (podrun run) [ab]"}`, layout.Owner(identity.Pod{Namespace: "default", Name: "corrupt"}): "{",
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := FlockFile(layout.Locks().Pod(held), unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	clear := func() (out []string) {
		for path := range files {
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "hunter2") {
				out = append(out, path)
			}
		}
		return out
	}
	if err := RewriteHolders(layout, runtimeLock); err != nil {
		t.Fatal(err)
	}
	if left := clear(); len(left) != 2 || !strings.Contains(left[0], "held") || !strings.Contains(left[1], "held") {
		t.Errorf("not rewritten: %v", left)
	}
	lock.Close()
	if err := RewriteHolders(layout, runtimeLock); err != nil {
		t.Fatal(err)
	}
	if left := clear(); len(left) > 0 {
		t.Errorf("not rewritten: %v", left)
	}
	if got := Holder(layout.Locks().Services()); got != files[layout.Locks().Services()] {
		t.Errorf("the lock of this version: %q", got)
	}
	if r, err := ReadOwner(layout, web); err != nil || r.Holder != "process 7 (podrun run)" || r.UID != "u" {
		t.Errorf("%+v %v", r, err)
	}
	for _, name := range []string{"newer", "corrupt"} {
		path := layout.Owner(identity.Pod{Namespace: "default", Name: name})
		if data, err := os.ReadFile(path); err != nil || string(data) != files[path] {
			t.Errorf("%s: %s %v", name, data, err)
		}
	}
	if _, err := os.Lstat(layout.Locks().HoldersMark()); err != nil {
		t.Error(err)
	}
}
