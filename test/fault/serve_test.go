package fault

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/podrun/podrun/serve/source/signature"
	"github.com/podrun/podrun/test/patience"
)

// converges is how long serve may take, after the fault has ended, to bring a pod into the state
// that its file defines, in ticks. Back-offs last 10 s, and each active call ends at its time limit.
const converges = patience.OnFake

// leastLimit is the least time limit of a call of serve, or of a command that restores a pod. Calls before the fault would
// exceed a shorter one because the machine is overloaded.
const leastLimit = 10 * time.Second

// endsWithin is how long serve may take to exit after SIGTERM.
const endsWithin = 10 * time.Second

// served is a running `podrun serve` whose source changes.
type served struct {
	*host
	ctx     context.Context
	command *exec.Cmd
	limit   time.Duration
	fault   *outage
}

// serve runs `podrun serve` with the sources of the command's life, and then terminates it. It ends the fault when the
// pod has recovered, or when limit has expired. The exit code in the result is -1 if a step of the life failed.
func (h *host) serve(ctx context.Context, c command, limit time.Duration, f *outage) result {
	defer f.end()
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var out, stderr strings.Builder
	// As in the kubelet, pulls have no time limit by default.
	calls := max(limit, leastLimit)
	s := &served{host: h, ctx: ctx, limit: limit, fault: f, command: h.process(ctx,
		append(requestTimeout(calls), "PODRUN_PULL_TIMEOUT="+calls.String()), strings.Fields(c.line)...)}
	s.command.Dir, s.command.Stdout, s.command.Stderr = h.dir, &out, &stderr
	h.onBadHook = f.begin
	unmet := os.Mkdir(s.path(), 0o755)
	if unmet == nil {
		unmet = c.life(s)
	}
	code := -1
	if s.command.Process != nil {
		late := time.AfterFunc(endsWithin, cancel)
		defer late.Stop()
		// this has no effect if serve has already exited
		_ = s.command.Process.Signal(syscall.SIGTERM)
		// the state of the process contains the result
		_ = s.command.Wait()
		code = s.command.ProcessState.ExitCode()
	}
	r := result{code: code, out: out.String(), err: stderr.String(), took: time.Since(begun)}
	if unmet != nil {
		r.code, r.err = -1, r.err+unmet.Error()
	}
	return r
}

// path returns the path of a file in the manifest directory.
func (s *served) path(name ...string) string {
	return filepath.Join(append([]string{s.dir, "manifests"}, name...)...)
}

// write replaces a file of the manifest directory.
func (s *served) write(name, text string) error {
	return errors.Join(os.WriteFile(s.path(".new"), []byte(text), 0o600), os.Rename(s.path(".new"), s.path(name)))
}

// becomes waits until a check succeeds while no call fails.
func (s *served) becomes(what string, check func() error) error {
	ctx, cancel := patience.Context(s.ctx, converges)
	defer cancel()
	var last error
	if err := patience.Until(ctx, func() bool { last = check(); return last == nil }); err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, last)
	}
	return nil
}

// recovers waits until a check succeeds; the fault may prevent this until it ends.
func (s *served) recovers(what string, check func() error) error {
	_ = until(s.ctx, s.limit, check)
	s.fault.end()
	return s.becomes(what, check)
}

// remove removes the pod's file, and waits until the pod no longer exists.
func (s *served) remove() error {
	if err := os.Remove(s.path("pod.yaml")); err != nil {
		return err
	}
	return s.becomes("the pod is removed", s.gone)
}

// inOrder calls the functions until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// startAndRemove is the life of a pod whose start fails.
func startAndRemove(s *served) error {
	err := inOrder(
		func() error { return s.write("pod.yaml", manifests["one.yaml"]) },
		func() error {
			s.fault.begin()
			return s.command.Start()
		},
		func() error { return s.recovers("the pod runs", s.runs) },
	)
	if s.command.Process == nil {
		return err
	}
	return errors.Join(err, s.remove())
}

// rollBack is the life of a pod that gets a bad update. Calls fail while podrun restores the last good definition.
func rollBack(s *served) error {
	watched := func(name string) string {
		return strings.Replace(manifests[name], "annotations: {", "annotations: {podrun.dev/progress-deadline: 1m, ", 1)
	}
	state := func(want, image string) func() error {
		return func() error {
			u, err := os.ReadFile(filepath.Join(s.dir, "root/updates/fault_web"))
			if err != nil || !strings.Contains(string(u), `"state":"`+want+`"`) {
				return fmt.Errorf("the update: %s, %w", u, err)
			}
			return s.runsImage(image)
		}
	}
	return inOrder(
		func() error { return s.write("pod.yaml", watched("one.yaml")) },
		s.command.Start,
		func() error { return s.becomes("the first definition is good", state("Good", "far:1")) },
		func() error { return s.write("pod.yaml", watched("bad.yaml")) },
		func() error { return s.becomes("the hook fails", s.fault.hasBegun) },
		func() error { return s.recovers("the first definition is restored", state("RolledBack", "far:1")) },
		s.remove,
	)
}

// updateSigned is the life of a pod of a signed source. A change without a signature has no effect. Calls fail from the time
// when it is signed.
func updateSigned(s *served) error {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		return err
	}
	sign := func(sums string) error {
		sig, err := sshsig.Sign(strings.NewReader(sums), key, sshsig.HashSHA512, signature.Namespace)
		if err != nil {
			return err
		}
		return errors.Join(s.write("SHA256SUMS", sums), s.write("SHA256SUMS.sig", string(sshsig.Armor(sig))))
	}
	sums := func(serial int, name string) string {
		return fmt.Sprintf("# serial %d\n%x  pod.yaml\n", serial, sha256.Sum256([]byte(manifests[name])))
	}
	unverified := func() error {
		if r := s.podrun(s.ctx, nil, "get", "--sources"); !strings.Contains(r.out, "Unverified") {
			return fmt.Errorf("code %d: %s%s", r.code, r.out, r.err)
		}
		return s.runsImage("far:1")
	}
	return inOrder(
		func() error {
			return os.WriteFile(filepath.Join(s.dir, "allowed_signers"), append([]byte("release "), ssh.MarshalAuthorizedKey(key.PublicKey())...), 0o600)
		},
		func() error { return s.write("pod.yaml", manifests["one.yaml"]) },
		func() error { return sign(sums(1, "one.yaml")) },
		s.command.Start,
		func() error { return s.becomes("the pod runs", s.runs) },
		func() error { return s.write("pod.yaml", manifests["two.yaml"]) },
		func() error { return s.becomes("the source is refused", unverified) },
		func() error {
			s.fault.begin()
			return sign(sums(2, "two.yaml"))
		},
		func() error { return s.recovers("the update runs", func() error { return s.runsImage("far:2") }) },
		func() error { return sign("# serial 3\n") },
		func() error { return s.becomes("the pod is removed", s.gone) },
	)
}

// until repeats a check until it succeeds, and returns the error of the last check.
func until(ctx context.Context, limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err := check(); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
