package ownruntime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// damagedRuntime returns a runtime that is not running and that has failed to start often enough
// because of its store.
func damagedRuntime(t *testing.T, o Options) *Runtime {
	t.Helper()
	s := nodeconfig.Default()
	s.RootDir, s.RuntimeRecover = filepath.Join(t.TempDir(), "root"), true
	o.Warn, o.Note = func(problem.List) {}, func(string) {}
	r := New(s, o)
	r.layout.RunDir = t.TempDir()
	for _, dir := range []string{r.layout.Containerd(), r.layout.Replaced(), r.layout.State()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	writeJSON(t, r.layout.Ends(), embedded.Ends{SchemaVersion: 1, Damaged: embedded.DamagedStarts, Damage: "panic: invalid page type", Why: "damaged: panic: invalid page type"})
	return r
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplacementsPerHour checks that a supervisor does not replace a store within an hour of an earlier
// replacement, but that `runtime up`, which a user runs, replaces it.
func TestReplacementsPerHour(t *testing.T) {
	for name, c := range map[string]struct {
		ago      time.Duration
		attended bool
		want     bool
	}{
		"serve, a minute before the hour has passed": {replaceAgainAfter - time.Minute, false, false},
		"serve, after an hour":                       {replaceAgainAfter, false, true},
		"serve, the clock was set to the past":       {-time.Minute, false, true},
		"runtime up":                                 {time.Minute, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := damagedRuntime(t, Options{Replaces: true, Attended: c.attended})
				if err := embedded.NoteAnnounced(r.layout, embedded.DamagedStore{Why: "x", At: time.Now().Add(-c.ago)}); err != nil {
					t.Fatal(err)
				}
				err := ownStore{r}.condemn(t.Context())
				condemned, rerr := embedded.ReadCondemned(t.Context(), r.layout)
				if rerr != nil || (condemned != nil) != c.want || (err == nil) != c.want {
					t.Fatalf("condemned %v, %v, %v", condemned, err, rerr)
				}
				if c.want {
					return
				}
				again := time.Now().Add(time.Minute).Format(time.RFC3339)
				for _, want := range []string{"panic: invalid page type", "59m0s ago", "check the disk and the memory", again, "or immediately with 'podrun runtime up'"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not contain %q", err, want)
					}
				}
			})
		})
	}
}

// TestWhoReplaces checks which commands decide to replace a store: only commands that may do so, only
// if the user has not forbidden it, and only after enough starts have failed.
func TestWhoReplaces(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *Runtime)
		want   bool
	}{
		"serve":                   {func(*Runtime) {}, true},
		"apply":                   {func(r *Runtime) { r.Replaces = false }, false},
		"--runtime-recover=false": {func(r *Runtime) { r.settings.RuntimeRecover = false }, false},
		"two failed starts": {func(r *Runtime) {
			writeJSON(t, r.layout.Ends(), embedded.Ends{SchemaVersion: 1, Damaged: embedded.DamagedStarts - 1, Damage: "x"})
		}, false},
		"no store": {func(r *Runtime) {
			if err := os.RemoveAll(r.layout.Containerd()); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		r := damagedRuntime(t, Options{Replaces: true})
		c.change(r)
		decide := ownStore{r}.prepare
		if c.want {
			decide = ownStore{r}.condemn // condemn only decides; prepare would also replace the store, which terminates processes on this host
		}
		err := decide(t.Context())
		condemned, rerr := embedded.ReadCondemned(t.Context(), r.layout)
		if err != nil || rerr != nil || (condemned != nil) != c.want {
			t.Errorf("%s: condemned %v, %v, %v", name, condemned, err, rerr)
		}
	}
}

// TestKeepBacksOff checks the intervals between the starts of a runtime that does not start.
func TestKeepBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nodeconfig.Default()
		s.RootDir = filepath.Join(t.TempDir(), "root")
		var warnings []string
		r := New(s, Options{Note: func(string) {}, Warn: func(l problem.List) {
			for _, p := range l {
				warnings = append(warnings, p.Message)
			}
		}})
		r.layout.RunDir = t.TempDir()
		var tries []time.Duration
		began := time.Now()
		r.archive = &embedded.Archive{Digest: strings.Repeat("0", 64),
			File:   func(string, int64) ([]byte, error) { return nil, errors.New("no such file") },
			Reader: func() io.Reader { return strings.NewReader("") },
			Tar: func() (io.ReadCloser, error) {
				tries = append(tries, time.Since(began).Round(time.Second))
				return nil, errors.New("the archive is defective")
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { r.Keep(ctx, r.layout.Endpoint(), errors.New("the first start failed")); close(ended) }()
		time.Sleep(2*time.Minute + time.Second/2)
		if problem, _ := r.Condition(ctx); !strings.Contains(problem, "the archive is defective") {
			t.Errorf("condition %q", problem)
		}
		cancel()
		<-ended
		var want []time.Duration
		for _, at := range []int{0, 1, 3, 7, 15, 31, 61, 91} {
			want = append(want, time.Duration(at)*time.Second)
		}
		if !slices.Equal(tries, want) {
			t.Errorf("started after %v, want %v", tries, want)
		}
		if len(warnings) != 2 { // one warning for the first failure, and one for all later failures with the same reason
			t.Errorf("warnings %q", warnings)
		}
	})
}
