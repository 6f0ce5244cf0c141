package patience

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(hangs) != "" {
		fmt.Println("up")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	os.Exit(m.Run())
}

// hangs is a variable that makes the test binary hang.
const hangs = "PODRUN_TEST_HANGS"

// TestCount checks when a limit ends.
func TestCount(t *testing.T) {
	for name, c := range map[string]struct {
		share float64
		want  time.Duration
	}{
		"idle":   {1, 60 * time.Second},
		"busy":   {0.5, 120 * time.Second},
		"busier": {0.25, 240 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				count(t.Context(), 60, time.NewTicker(time.Second), func() float64 { return c.share }, func() {})
				if took := time.Since(began); took != c.want {
					t.Errorf("60 ticks took %s, want %s", took, c.want)
				}
			})
		})
	}
}

// TestPause checks that a pause of the process is one tick.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, paused := time.Now(), false
		count(t.Context(), 60, time.NewTicker(time.Second), func() float64 {
			if !paused {
				paused = true
				time.Sleep(time.Hour) // nothing receives ticks
			}
			return 1
		}, func() {})
		if took := time.Since(began); took < time.Hour+58*time.Second {
			t.Errorf("with a pause of an hour, 60 ticks took %s", took)
		}
	})
}

func TestShareOf(t *testing.T) {
	for text, want := range map[string]float64{
		"0.20 0.18 0.12 1/80 11206\n": 1, "9.20 8.18 7.12 8/80 11206\n": 0.25, "99 9 9 99/200 11206\n": 0.125, "": 1, "0 0 0 x/y 1": 1,
	} {
		if got := shareOf(text, 2); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestCommand checks that a command that hangs prints its goroutines.
func TestCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	c := Command(ctx, self)
	var out bytes.Buffer
	c.Env, c.Stderr = append(os.Environ(), hangs+"=1"), &out
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel(Exceeded(60))
	if err := c.Wait(); err == nil || !strings.Contains(out.String(), "goroutine 1") {
		t.Errorf("the command printed %q and ended with %v", out.String(), err)
	}
	if !errors.Is(context.Cause(ctx), Exceeded(60)) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}
