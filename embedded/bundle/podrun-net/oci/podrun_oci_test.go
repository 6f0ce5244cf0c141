package oci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeRuntime prints how it was called.
const fakeRuntime = "#!/bin/sh\necho \"$0 $* [$" + cgroupsVariable + "]\"\n"

// buildPodrunOCI builds podrun-oci (embedded/bundle/oci), which executes podrun-oci-create or runc, and returns its path.
func buildPodrunOCI(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	path := filepath.Join(t.TempDir(), "podrun-oci")
	flags := strings.Fields("-std=c11 -Wall -Wextra -Werror -Os -static -nostdlib -ffreestanding -fno-pie -no-pie -fno-stack-protector -o")
	if out, err := exec.Command("gcc", append(flags, path, "../../oci/oci.c")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// install copies podrun-oci into the working directory, and writes programs there that print how they were called.
func install(t *testing.T, podrunOCI string, names ...string) {
	t.Helper()
	program, err := os.ReadFile(podrunOCI)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("podrun-oci", program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(name, []byte(fakeRuntime), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// call calls podrun-oci in the working directory, and returns its output.
func call(args string) (string, error) {
	c := exec.Command("./podrun-oci", strings.Fields(args)...)
	c.Env = []string{cgroupsVariable + "=cpu"}
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestPodrunOCI(t *testing.T) {
	program, dir := buildPodrunOCI(t), t.TempDir()
	t.Chdir(dir)
	install(t, program, "runc", Name)
	for args, want := range map[string]string{
		"": "runc",
		"--root /run/runc --log-format json state id": "runc",
		"--root /r delete --force created":            "runc",
		"features --create create=1 Create":           "runc",
		"--root /r create --bundle /b id":             Name,
		"run id":                                      Name,
		"--debug restore id":                          Name,
		"delete run":                                  Name, // an ID: podrun-oci-create recognizes it (TestBundleOf)
	} {
		if out, err := call(args); err != nil || out != dir+"/"+want+" "+args+" [cpu]\n" {
			t.Errorf("podrun-oci %s: %v, %q, want %s", args, err, out, want)
		}
	}
	// A name in another directory, and the working directory, have no effect.
	if err := os.Symlink("../podrun-oci", filepath.Join(mkdir(t, "bin"), "podrun-oci")); err != nil {
		t.Fatal(err)
	}
	t.Chdir("bin")
	if out, err := call("state id"); err != nil || !strings.HasPrefix(out, dir+"/runc ") {
		t.Errorf("by a symbolic link: %v, %q", err, out)
	}
}

func TestPodrunOCIWithoutPrograms(t *testing.T) {
	program, dir := buildPodrunOCI(t), t.TempDir()
	t.Chdir(dir)
	install(t, program)
	for args, missing := range map[string]string{"state id": "runc", "create id": Name} {
		if out, err := call(args); err == nil || out != "podrun-oci: execute "+dir+"/"+missing+": errno 2\n" {
			t.Errorf("podrun-oci %s: %v, %q", args, err, out)
		}
	}
}

// TestFrontLongPath runs podrun-oci in directories near the longest path of the kernel, 4095 bytes.
func TestPodrunOCILongPath(t *testing.T) {
	program := buildPodrunOCI(t)
	const tooLong = ": errno 36\n"
	for length, want := range map[int]struct{ state, create string }{
		4095 - len("/"+Name):      {"/runc state id [cpu]\n", "/" + Name + " create id [cpu]\n"},
		4096 - len("/"+Name):      {"/runc state id [cpu]\n", "/" + Name + tooLong},
		4095 - len("/podrun-oci"): {"/runc state id [cpu]\n", "/" + Name + tooLong},
		4096 - len("/podrun-oci"): {"podrun-oci: read /proc/self/exe" + tooLong, "podrun-oci: read /proc/self/exe" + tooLong},
		5000:                      {"podrun-oci: read /proc/self/exe" + tooLong, "podrun-oci: read /proc/self/exe" + tooLong},
	} {
		dir := t.TempDir()
		t.Chdir(dir)
		for have := len(dir); have < length; {
			next := min(length-have-1, 200)
			if rest := length - have - 1 - next; rest == 1 { // a slash requires a name
				next--
			}
			if err := os.Chdir(mkdir(t, strings.Repeat("d", next))); err != nil {
				t.Fatal(err)
			}
			have += 1 + next
		}
		install(t, program, "runc", Name)
		for args, want := range map[string]string{"state id": want.state, "create id": want.create} {
			if out, err := call(args); !strings.HasSuffix(out, want) || (err == nil) != strings.HasSuffix(want, "[cpu]\n") {
				t.Errorf("%d bytes: podrun-oci %s: %v, …%q, want …%q", length, args, err, out[max(0, len(out)-80):], want)
			}
		}
	}
}

func mkdir(t *testing.T, name string) string {
	t.Helper()
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
