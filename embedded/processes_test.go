package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shimName is the program of the shim in an archive.
const shimName = "bin/containerd-shim-runc-v2"

// shimArchive returns an archive whose shim is a shell.
func shimArchive(t *testing.T) Archive {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return packed(t, map[string]string{shimName: string(shell), "share/versions.json": "{}"}, nil)
}

// startShim starts a program with the command line of a shim of the layout's containerd, which runs until
// the end of the test or until it is killed. It returns its PID.
func startShim(t *testing.T, l Layout, program string) int {
	t.Helper()
	return startShell(t, program, "-namespace", "k8s.io", "-address", l.Socket()).Process.Pid
}

// expectRunning checks that the processes of the layout are the given ones, all of one archive.
func expectRunning(t *testing.T, l Layout, digest string, want ...int) {
	t.Helper()
	running, err := readRunning(l)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, p := range running {
		got = append(got, p.PID)
		if p.Digest != digest {
			t.Errorf("process %d has the digest %q", p.PID, p.Digest)
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		var exes []string
		for _, pid := range want {
			exe, err := os.Readlink(procFile(pid, "exe"))
			exes = append(exes, exe)
			if err != nil {
				t.Error(err)
			}
		}
		t.Fatalf("processes %v, want %v:\n%s", got, want, strings.Join(exes, "\n"))
	}
}

// TestProcessesAfterRepairs checks that podrun recognizes and terminates the shims that it started before and
// between several repairs of the unpacked archive.
func TestProcessesAfterRepairs(t *testing.T) {
	l, other, a := layoutIn(t), layoutIn(t), shimArchive(t)
	if err := errors.Join(Unpack(t.Context(), l, a), Unpack(t.Context(), other, a)); err != nil {
		t.Fatal(err)
	}
	startShim(t, other, filepath.Join(other.Unpacked(a.Digest), shimName))
	var shims []int
	for range 4 {
		shims = append(shims, startShim(t, l, filepath.Join(l.Unpacked(a.Digest), shimName)))
		expectRunning(t, l, a.Digest, shims...)
		if err := os.Remove(filepath.Join(l.Unpacked(a.Digest), versionsFile)); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(t.Context(), l, a); err != nil {
			t.Fatal(err)
		}
		expectRunning(t, l, a.Digest, shims...)
		if left := leftIn(t, l); left != a.Digest {
			t.Fatalf("%s is in the directory", left)
		}
	}
	for _, pid := range shims {
		if exe, err := os.Readlink(procFile(pid, "exe")); err != nil || strings.Count(exe, brokenSuffix) > 1 {
			t.Errorf("the repairs are nested: %s, %v", exe, err)
		}
	}
	if err := stopStrays(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	expectRunning(t, l, a.Digest)
}

// TestProcessesAfterInterruptedRepairs checks that podrun recognizes processes from every directory that a repair
// may have left, also that of an older podrun, whose repairs were nested and whose temporary directories have no
// digest in their names.
func TestProcessesAfterInterruptedRepairs(t *testing.T) {
	for _, moved := range []string{
		".unpack-" + someDigest + "-1" + brokenSuffix,
		".unpack-1/.broken",
		".unpack-1/.broken/.broken",
		someDigest + "/.broken/.broken",
	} {
		for name, remove := range map[string]bool{"kept": false, "removed": true} {
			t.Run(moved+" "+name, func(t *testing.T) {
				l := layoutIn(t)
				program, to := filepath.Join(l.Unpacked(someDigest), shimName), filepath.Join(l.Dir(), moved)
				shell, err := os.ReadFile("/bin/sh")
				if err = errors.Join(err, os.MkdirAll(filepath.Dir(program), 0o755)); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(program, shell, 0o755); err != nil {
					t.Fatal(err)
				}
				pid := startShim(t, l, program)
				aside := filepath.Join(l.Dir(), "aside")
				if err := errors.Join(os.Rename(l.Unpacked(someDigest), aside), os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(aside, to)); err != nil {
					t.Fatal(err)
				}
				if remove {
					if err := os.RemoveAll(to); err != nil {
						t.Fatal(err)
					}
				}
				expectRunning(t, l, someDigest, pid)
			})
		}
	}
}
