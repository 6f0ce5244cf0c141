package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/test/ring"
	"github.com/podrun/podrun/volume"
)

const secretText = "hunter2-in-memory"

// secretPod returns a pod with a Secret that contains the text. An annotation of the Secret repeats
// the text, as with kubectl apply.
func secretPod(inMemory bool, text string) (identity.Pod, manifest.Checkpoint) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	annotated := meta
	annotated.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: base64.StdEncoding.EncodeToString([]byte(text))}
	immutable := true
	return identity.Pod{Namespace: "default", Name: "web", UID: "u1"}, manifest.Checkpoint{InMemory: inMemory, Pod: &corev1.Pod{ObjectMeta: meta},
		Secrets: []*corev1.Secret{{ObjectMeta: annotated, Immutable: &immutable, Data: map[string][]byte{"k": []byte(text)}}}}
}

// secretsLayout returns the layout of a root directory on a disk and a separate directory in memory.
func secretsLayout(t *testing.T) identity.Layout {
	t.Helper()
	ring.RequireRoot(t)
	layout := testLayout(t)
	layout.RunDir = filepath.Join(t.TempDir(), "podrun")
	if err := os.MkdirAll(string(layout.Pod("u1")), 0o750); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := RemovePod(context.Background(), layout, "u1"); err != nil {
			t.Error(err)
		}
		if exists(string(layout.Secrets())) {
			t.Errorf("%s is left", string(layout.Secrets()))
		}
	})
	return layout
}

// holds lists the files below a directory that contain the text, in plain text or base64.
func holds(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(text)))) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func mustWrite(t *testing.T, layout identity.Layout, id identity.Pod, c manifest.Checkpoint) {
	t.Helper()
	if err := WriteCheckpoint(layout, id, c); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsAreWhereTheLastModeHasThem (D12) checks that after each change of the mode, the Secrets
// are stored only in the place of the new mode, and that podrun can read them in either mode.
func TestSecretsAreWhereTheLastModeHasThem(t *testing.T) {
	for name, modes := range map[string][]bool{
		"disk": {false}, "memory": {true}, "memory twice": {true, true}, "to memory": {false, true}, "to disk": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			layout := secretsLayout(t)
			var id identity.Pod
			var last manifest.Checkpoint
			for _, memory := range modes {
				id, last = secretPod(memory, secretText)
				mustWrite(t, layout, id, last)
			}
			if n := len(holds(t, layout.RootDir, secretText)); (n == 0) != last.InMemory {
				t.Errorf("%d files of the root directory have the Secret; in memory: %v", n, last.InMemory)
			}
			if last.InMemory {
				if files := holds(t, layout.RunDir, secretText); len(files) != 1 {
					t.Errorf("files in memory: %v, want one", files)
				}
				info, err := os.Stat(string(layout.Secrets()))
				if memory, e := isInMemory(string(layout.Secrets())); e != nil || !memory || err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("in memory: %v, %v; %v %v", memory, e, info, err)
				}
			} else if _, err := os.Lstat(string(layout.Secrets())); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", string(layout.Secrets()), err)
			}
			got, err := ReadCheckpoint(layout, id.UID)
			if err != nil || got.SecretsLost || got.InMemory != last.InMemory || string(got.Secrets[0].Data["k"]) != secretText || !*got.Secrets[0].Immutable {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestSecretsLost covers a reboot, after which the pod exists but its Secrets do not. podrun must
// not write the checkpoint without the Secrets. When podrun writes the checkpoint with Secrets
// again, it is complete.
func TestSecretsLost(t *testing.T) {
	layout := secretsLayout(t)
	id, c := secretPod(true, secretText)
	mustWrite(t, layout, id, c)
	if err := os.RemoveAll(layout.Secrets().Pods()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCheckpoint(layout, id.UID)
	if err != nil || !got.SecretsLost || !got.InMemory || got.Pod.Name != "web" || got.Secrets[0].Name != "web" || len(got.Secrets[0].Data) > 0 || got.Secrets[0].Immutable != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if WriteCheckpoint(layout, id, *got) == nil {
		t.Error("a checkpoint without its Secrets was written")
	}
	mustWrite(t, layout, id, c)
	if got, err := ReadCheckpoint(layout, id.UID); err != nil || got.SecretsLost {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSecretsOfAKilledPodrun checks that the previous checkpoint remains intact if a podrun process
// is killed between the writes of the two files. A sweep removes files that do not belong to a pod.
func TestSecretsOfAKilledPodrun(t *testing.T) {
	layout := secretsLayout(t)
	id, c := secretPod(true, secretText)
	mustWrite(t, layout, id, c)
	for _, uid := range []string{"u1", "u2"} {
		if err := writeSecretFile(layout, filepath.Join(layout.Secrets().Pod(uid), "0123"), []byte("half of hunter3")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ReadCheckpoint(layout, id.UID); err != nil || got.SecretsLost || string(got.Secrets[0].Data["k"]) != secretText {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Sweep(layout); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(layout.Secrets().Pod("u2")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Secrets without a pod remain: %v", err)
	}
	mustWrite(t, layout, id, c)
	if files := holds(t, layout.RunDir, "hunter3"); len(files) > 0 {
		t.Errorf("%v are left", files)
	}
}

// TestSecretsDirOfAKilledPodrun covers a podrun process that is killed before it writes the first
// file in memory. It leaves behind a directory, which may already be a tmpfs. A sweep removes this
// directory, unless it contains Secrets.
func TestSecretsDirOfAKilledPodrun(t *testing.T) {
	layout := secretsLayout(t)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"the directory", func() error { return os.MkdirAll(string(layout.Secrets()), 0o700) }},
		{"the tmpfs", func() error { return makeSecretsDir(layout) }},
		{"the directory of all pods", func() error { return os.Mkdir(layout.Secrets().Pods(), 0o700) }},
	} {
		err := os.MkdirAll(string(layout.Secrets()), 0o700)
		if err == nil {
			err = step.do()
		}
		if err == nil {
			err = Sweep(layout)
		}
		if err != nil || exists(string(layout.Secrets())) {
			t.Errorf("killed after it made %s: %v, or %s is left", step.name, err, string(layout.Secrets()))
		}
	}
	// The sweep removed this directory.
	if err := os.MkdirAll(string(layout.Pod("u1")), 0o750); err != nil {
		t.Fatal(err)
	}
	id, c := secretPod(true, secretText)
	mustWrite(t, layout, id, c)
	if err := Sweep(layout); err != nil || len(holds(t, layout.Secrets().Pods(), secretText)) == 0 {
		t.Errorf("%v, or the Secrets of a pod were removed", err)
	}
}

// TestSecretsInMemoryHaveASchemaOfTheirOwn checks that an older version of podrun, which does not
// support Secrets in memory, does not change a pod with such Secrets.
func TestSecretsInMemoryHaveASchemaOfTheirOwn(t *testing.T) {
	layout := secretsLayout(t)
	for _, memory := range []bool{false, true} {
		id, c := secretPod(memory, secretText)
		mustWrite(t, layout, id, c)
		found := checkpointFile.Examine(t.Context(), layout.Pod(id.UID).Checkpoint())
		if want := map[bool]int{false: 1, true: 2}[memory]; found.Version != want {
			t.Errorf("in memory %v: version %d, want %d; %v", memory, found.Version, want, found.Fault)
		}
	}
}

// TestSecretsDirOfAnother checks that podrun refuses a symlink, or the directory of another user,
// in place of its own directory.
func TestSecretsDirOfAnother(t *testing.T) {
	layout := secretsLayout(t)
	id, c := secretPod(true, secretText)
	around := filepath.Dir(string(layout.Secrets()))
	for name, spoil := range map[string]func() error{
		"open to others": func() error { return os.Chmod(around, 0o755) },
		"of another":     func() error { return os.Chown(around, 65534, 0) },
		"a link":         func() error { return errors.Join(os.Remove(around), os.Symlink(t.TempDir(), around)) },
	} {
		if err := os.MkdirAll(around, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if WriteCheckpoint(layout, id, c) == nil {
			t.Errorf("%s: Secrets were written there", name)
		}
		if err := os.RemoveAll(around); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecretsBelowATmpfs checks that podrun only creates a directory, and does not mount a tmpfs,
// if /run is in memory.
func TestSecretsBelowATmpfs(t *testing.T) {
	layout := secretsLayout(t)
	run, err := os.MkdirTemp("/dev/shm", "podrun-ut-")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	defer os.RemoveAll(run)
	layout.RunDir = filepath.Join(run, "podrun")
	id, c := secretPod(true, secretText)
	mustWrite(t, layout, id, c)
	var inner, outer unix.Stat_t
	if err := errors.Join(unix.Stat(string(layout.Secrets()), &inner), unix.Stat(run, &outer)); err != nil || inner.Dev != outer.Dev || inner.Mode&0o777 != 0o700 {
		t.Errorf("devices %d and %d, mode %o, %v", inner.Dev, outer.Dev, inner.Mode, err)
	}
	if err := RemovePod(t.Context(), layout, id.UID); err != nil || exists(string(layout.Secrets())) {
		t.Errorf("left: %v, %v", exists(string(layout.Secrets())), err)
	}
}

// TestSecretsOfAFullMemory checks that podrun refuses the pod with a message if the file system in
// memory is full, and keeps existing files.
func TestSecretsOfAFullMemory(t *testing.T) {
	layout := secretsLayout(t)
	id, c := secretPod(true, secretText)
	if err := os.MkdirAll(string(layout.Secrets()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := volume.MountTmpfs(string(layout.Secrets()), 64<<10, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(string(layout.Secrets()), 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, layout, id, c)
	_, large := secretPod(true, strings.Repeat("x", 1<<20))
	err := WriteCheckpoint(layout, id, large)
	if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Refused || !errors.Is(err, unix.ENOSPC) || e.Hint == "" {
		t.Errorf("error %v", err)
	}
	if got, err := ReadCheckpoint(layout, id.UID); err != nil || got.SecretsLost || string(got.Secrets[0].Data["k"]) != secretText {
		t.Errorf("%+v, %v", got, err)
	}
	if entries, err := os.ReadDir(layout.Secrets().Pod(id.UID)); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v, want only the earlier file", entries, err)
	}
}

// TestRemoteCopiesInMemory covers copies of remote sources, which may contain Secrets. podrun must
// store them only in the place of the last mode, and remove copies of URLs that are no longer
// sources.
func TestRemoteCopiesInMemory(t *testing.T) {
	layout := secretsLayout(t)
	write := func(name string, memory bool) {
		t.Helper()
		if err := WriteRemoteCopy(layout, name, []byte(`"`+secretText+name+`"`), memory); err != nil {
			t.Fatal(err)
		}
	}
	want := func(disk, memory int) {
		t.Helper()
		d, m := 0, 0
		if exists(layout.Serve().RemoteCopies()) {
			d = len(holds(t, layout.Serve().RemoteCopies(), secretText))
		}
		if exists(layout.Secrets().RemoteCopies()) {
			m = len(holds(t, layout.Secrets().RemoteCopies(), secretText))
		}
		if d != disk || m != memory {
			t.Errorf("%d copies on disk and %d in memory, want %d and %d", d, m, disk, memory)
		}
		for _, name := range []string{"a", "b"} {
			if data, err := ReadRemoteCopy(layout, name); err == nil && string(data) != `"`+secretText+name+`"` {
				t.Errorf("copy %s: %q", name, data)
			}
		}
	}
	write("a", false)
	write("b", false)
	want(2, 0)
	if err := MoveRemoteCopies(layout); err != nil {
		t.Fatal(err)
	}
	want(0, 2)
	write("a", true)
	want(0, 2)
	write("a", false)
	want(1, 1)
	if err := RemoveOtherCopies(layout, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	want(1, 0)
	if exists(string(layout.Secrets())) {
		t.Errorf("%s is left", string(layout.Secrets()))
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
