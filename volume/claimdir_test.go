package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/ring"
)

// deleteClaim deletes the directory of a claim that no stored pod uses.
func deleteClaim(ctx context.Context, path string) error {
	unused := func() (map[string]bool, error) { return nil, nil }
	return DeleteClaims(ctx, []string{path}, unused, func() error { return nil })
}

// provisionedPlan returns the plan, for a new root directory, of a volume for a claim in the
// directory claims.
func provisionedPlan(t *testing.T, claims string) Plan {
	t.Helper()
	ring.RequireRoot(t)
	in := input(podOf(t, "containers: [{name: app, volumeMounts: [{name: data, mountPath: /data}]}]\nvolumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n"))
	in.Layout = identity.Layout{RootDir: t.TempDir()}
	claim, pv, err := Provision(claims, "default", "data", nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Claims = map[string]*corev1.PersistentVolumeClaim{"data": claim}
	in.PersistentVolumes = map[string]*corev1.PersistentVolume{pv.Name: pv}
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	t.Cleanup(func() {
		if err := Remove(context.Background(), plan.Layout, plan.ID.UID); err != nil {
			t.Error(err)
		}
	})
	return plan
}

func modeOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Mode & 0o7777
}

// TestClaimDirectory checks that podrun creates the directory with its mode only once, even if
// a process was killed while it did so. The mode and the content that an app sets must remain.
func TestClaimDirectory(t *testing.T) {
	claims := filepath.Join(t.TempDir(), "above", "claims")
	plan := provisionedPlan(t, claims)
	// A killed process left this directory behind.
	if err := os.MkdirAll(filepath.Join(claims, newClaimName), 0o700); err != nil {
		t.Fatal(err)
	}
	defer unix.Umask(unix.Umask(0o077))
	noError(t, Apply(t.Context(), plan))
	data := filepath.Join(claims, "default_data")
	if mode := modeOf(t, data); mode != 0o777 {
		t.Errorf("mode %o, want 777", mode)
	}
	if err := errors.Join(os.WriteFile(plan.Volumes[0].HostPath+"/file", nil, 0o600), os.Chmod(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	noError(t, Apply(t.Context(), plan))
	if err := Unmount(t.Context(), plan.Layout, plan.ID.UID); err != nil {
		t.Fatal(err)
	}
	noError(t, Apply(t.Context(), plan))
	if _, err := os.Stat(plan.Volumes[0].HostPath + "/file"); err != nil || modeOf(t, data) != 0o700 {
		t.Errorf("mode %o, %v", modeOf(t, data), err)
	}
	entries, err := os.ReadDir(claims)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestClaimDirectoryIsNoSymlink checks that podrun does not follow a symlink in place of a
// claim's directory.
func TestClaimDirectoryIsNoSymlink(t *testing.T) {
	claims, outside := t.TempDir(), t.TempDir()
	data := filepath.Join(claims, "default_data")
	plan := provisionedPlan(t, claims)
	if err := errors.Join(os.Symlink(outside, data), os.WriteFile(filepath.Join(outside, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	problems := Check(podOf(t, "{}"), plan, map[string]Path{claims: {Mode: fs.ModeDir}, data: {Mode: fs.ModeDir, Symlink: true}}, "")
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "is not a directory") {
		t.Error(problems)
	}
	if err := bindOnly(t, plan); err == nil {
		t.Error("a symlink was bound")
	}
	if err := errors.Join(DropClaims(t.Context(), plan)); err != nil {
		t.Error(err)
	}
	if err := deleteClaim(t.Context(), data); err == nil {
		t.Error("a symlink was deleted")
	}
	if _, err := os.Stat(filepath.Join(data, "file")); err != nil {
		t.Error(err)
	}
	// Dir itself may be a symlink, because that is the administrator's choice.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(claims, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	noError(t, Apply(t.Context(), provisionedPlan(t, link)))
}

// bindOnly binds the volume without the preceding check, as if the symlink were created after the
// check.
func bindOnly(t *testing.T, p Plan) error {
	t.Helper()
	target := t.TempDir()
	err := p.Volumes[0].Setup.Local.bindClaim(t.Context(), target)
	_ = unix.Unmount(target, unix.MNT_DETACH)
	return err
}

func TestDeleteClaims(t *testing.T) {
	claims := t.TempDir()
	data := filepath.Join(claims, "default_data")
	one, two := provisionedPlan(t, claims), provisionedPlan(t, claims)
	if err := deleteClaim(t.Context(), filepath.Join(claims, "none", "default_data")); err != nil {
		t.Error(err)
	}
	noError(t, Apply(t.Context(), one))
	noError(t, Apply(t.Context(), two))
	if err := os.MkdirAll(filepath.Join(data, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	var used *InUseError
	if err := deleteClaim(t.Context(), data); !errors.As(err, &used) {
		t.Errorf("error %v, want an InUseError", err)
	}
	if err := Unmount(t.Context(), one.Layout, one.ID.UID); err != nil {
		t.Fatal(err)
	}
	released := 0
	inUse := func() (map[string]bool, error) { return map[string]bool{data: true}, nil }
	if err := DeleteClaims(t.Context(), []string{data}, inUse, func() error { released++; return nil }); err != nil || released != 1 {
		// Only the last user of the directory may delete it.
		t.Errorf("error %v, released %d times", err, released)
	}
	if _, err := os.Stat(data + "/a/b"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(Unmount(t.Context(), two.Layout, two.ID.UID), os.MkdirAll(filepath.Join(claims, deletedClaimName+"x/y"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := deleteClaim(t.Context(), data); err != nil {
			t.Error(err)
		}
		if entries, err := os.ReadDir(claims); err != nil || len(entries) > 0 {
			t.Errorf("%v %v", entries, err)
		}
	}
}

// TestClaimsOfSeveralProcesses creates, binds and deletes directories concurrently. A directory
// must either be complete or not exist, and must never be deleted while it is mounted.
func TestClaimsOfSeveralProcesses(t *testing.T) {
	claims := t.TempDir()
	data := filepath.Join(claims, "default_data")
	var wg sync.WaitGroup
	for range 4 {
		plan := provisionedPlan(t, claims)
		wg.Go(func() {
			for range 25 {
				err := Apply(t.Context(), plan)
				if err == nil && modeOf(t, plan.Volumes[0].HostPath) != 0o777 {
					err = errors.New("the volume lacks its mode")
				}
				if err == nil {
					// The write fails if the directory was deleted.
					err = os.WriteFile(plan.Volumes[0].HostPath+"/file", nil, 0o600)
				}
				err = errors.Join(err, Unmount(t.Context(), plan.Layout, plan.ID.UID))
				var used *InUseError
				if del := deleteClaim(t.Context(), data); !errors.As(del, &used) {
					err = errors.Join(err, del)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestLockedClaims checks that podrun stops waiting for another process when the context is done.
func TestLockedClaims(t *testing.T) {
	claims := t.TempDir()
	held, err := lockClaims(t.Context(), claims, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the command ends")
	cancel(cause)
	if _, err := lockClaims(ctx, claims, true); !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's error", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDropClaims checks that after a failed start, podrun removes the directories that it
// created, except those that are used or were changed.
func TestDropClaims(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, data string, p Plan)
		stays  bool
	}{
		"new":       {change: func(*testing.T, string, Plan) {}},
		"with data": {change: func(t *testing.T, data string, _ Plan) { noError(t, os.WriteFile(data+"/file", nil, 0o600)) }, stays: true},
		"of an app": {change: func(t *testing.T, data string, _ Plan) { noError(t, os.Chmod(data, 0o700)) }, stays: true},
		"of a user": {change: func(t *testing.T, data string, _ Plan) { noError(t, os.Chown(data, 1000, 0)) }, stays: true},
		"mounted":   {change: func(t *testing.T, _ string, _ Plan) {}, stays: true},
		"missing":   {change: func(t *testing.T, data string, _ Plan) { noError(t, os.Remove(data)) }},
	} {
		t.Run(name, func(t *testing.T) {
			claims := t.TempDir()
			data := filepath.Join(claims, "default_data")
			plan := provisionedPlan(t, claims)
			noError(t, Apply(t.Context(), plan))
			if name != "mounted" {
				noError(t, Unmount(t.Context(), plan.Layout, plan.ID.UID))
			}
			c.change(t, data, plan)
			for range 2 {
				noError(t, DropClaims(t.Context(), plan))
			}
			if _, err := os.Stat(data); (err == nil) != c.stays {
				t.Errorf("it stays: %v, want %v", err == nil, c.stays)
			}
		})
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
