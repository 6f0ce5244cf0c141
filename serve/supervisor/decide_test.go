package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
)

var (
	now   = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	later = now.Add(5 * time.Second)
	since = now.Add(-5 * time.Second)
)

// presences are the columns of the state table in docs/serve.md.
var presences = []Presence{Present, Gone, Unreachable, NoSource}

// cell is the expected step for a pod in one state and with one kind of source.
type cell struct {
	do    Verb
	until time.Time
	force bool
}

// row is one state of a pod: the fields of Situation except its source, and the expected step
// for each source in the order of presences.
type row struct {
	state string // text of the first column in docs/serve.md, up to "("
	about string // the variant of the state, if there are several
	make  func(*Situation)
	want  [4]cell
}

var (
	waits    = cell{do: Wait}
	apply    = cell{do: Apply}
	attend   = cell{do: Attend}
	remove   = cell{do: Delete}
	rollback = cell{do: RollBack}
	release  = cell{do: Release}
	evict    = cell{do: Evict}
	forget   = cell{do: Forget}
)

func exists(s *Situation) { s.Checkpoint, s.Origin, s.Applied = CheckpointIntact, OriginSource, "h1" }

// applied changes s to a pod that a command applied after the supervisor had applied the source.
func applied(s *Situation) { exists(s); s.Origin = OriginCommand }

// stateTable is the table of docs/serve.md. If a source is Present, its definition is h1.
var stateTable = []row{
	{"new", "", func(*Situation) {}, [4]cell{apply, forget, waits, forget}},
	{"running", "", exists, [4]cell{attend, remove, attend, attend}},
	{"is a surplus replica", "", func(s *Situation) { exists(s); s.Surplus = true }, [4]cell{remove, remove, remove, remove}},
	{"is a surplus replica", "which a command applied", func(s *Situation) { applied(s); s.Surplus = true }, [4]cell{remove, remove, remove, remove}},
	{"ended", "found by this process", func(s *Situation) { exists(s); s.Phase = PhaseEnded }, [4]cell{waits, remove, waits, waits}},
	{"ended", "not known yet: attending it finds that", exists, [4]cell{attend, remove, attend, attend}},
	{"failed", "could not be made", func(s *Situation) { s.Failed, s.RetryApply = "h1", later },
		[4]cell{{do: Wait, until: later}, forget, waits, forget}},
	{"failed", "could not be made, its time has come", func(s *Situation) { s.Failed, s.RetryApply = "h1", since },
		[4]cell{apply, forget, waits, forget}},
	{"failed", "could not be made, the file has changed", func(s *Situation) { s.Failed, s.RetryApply = "h0", later },
		[4]cell{apply, forget, waits, forget}},
	{"failed", "could not be supervised", func(s *Situation) { exists(s); s.RetryAttend = later },
		[4]cell{{do: Wait, until: later}, remove, {do: Wait, until: later}, {do: Wait, until: later}}},
	{"failed", "could not be supervised, its time has come", func(s *Situation) { exists(s); s.RetryAttend = since },
		[4]cell{attend, remove, attend, attend}},
	{"failed", "could not be removed", func(s *Situation) { exists(s); s.RetryDelete = later },
		[4]cell{attend, {do: Wait, until: later}, attend, attend}},
	{"failed", "could not be removed, its time has come", func(s *Situation) { exists(s); s.RetryDelete = since },
		[4]cell{attend, remove, attend, attend}},
	{"a bad update", "", func(s *Situation) { exists(s); s.RollingBack, s.Rejected = true, true }, [4]cell{rollback, remove, rollback, rollback}},
	{"a bad update", "of a command", func(s *Situation) { applied(s); s.RollingBack = true }, [4]cell{rollback, release, rollback, rollback}},
	{"a bad update", "the file has changed", func(s *Situation) { exists(s); s.RollingBack, s.Applied = true, "h0" }, [4]cell{apply, remove, rollback, rollback}},
	{"a bad update", "the file has changed, and could not be applied", func(s *Situation) {
		exists(s)
		s.RollingBack, s.Applied, s.Failed, s.RetryApply = true, "h0", "h1", later
	}, [4]cell{rollback, remove, rollback, rollback}},
	{"a bad update", "and it has ended", func(s *Situation) { exists(s); s.RollingBack, s.Rejected, s.Phase = true, true, PhaseEnded }, [4]cell{rollback, remove, rollback, rollback}},
	{"a bad update", "and it was stopped", func(s *Situation) { exists(s); s.RollingBack, s.Rejected, s.Halt = true, true, HaltStopped }, [4]cell{waits, remove, waits, waits}},
	{"a bad update", "could not be rolled back", func(s *Situation) { exists(s); s.RollingBack, s.Rejected, s.RetryRollBack = true, true, later },
		[4]cell{{do: Attend, until: later}, remove, {do: Attend, until: later}, {do: Attend, until: later}}},
	{"a bad update", "could not be rolled back, its time has come", func(s *Situation) { exists(s); s.RollingBack, s.Rejected, s.RetryRollBack = true, true, since },
		[4]cell{rollback, remove, rollback, rollback}},
	{"rolled back", "", func(s *Situation) { exists(s); s.Rejected = true }, [4]cell{attend, remove, attend, attend}},
	{"rolled back", "before the record of the source was written", func(s *Situation) { exists(s); s.Rejected, s.Applied = true, "h0" }, [4]cell{attend, remove, attend, attend}},
	{"rolled back", "a replica that is not on this host", func(s *Situation) { s.Rejected = true }, [4]cell{waits, forget, waits, forget}},
	{"rolled back", "and evicted", func(s *Situation) { exists(s); s.Rejected, s.Phase, s.RetryEvicted = true, PhaseEvicted, since }, [4]cell{rollback, remove, rollback, waits}},
	{"rolled back", "and its checkpoint is corrupt", func(s *Situation) { exists(s); s.Rejected, s.Checkpoint = true, CheckpointCorrupt }, [4]cell{rollback, remove, waits, waits}},
	{"rolled back", "and its Secrets are lost", func(s *Situation) { exists(s); s.Rejected, s.Checkpoint = true, CheckpointWithoutSecrets }, [4]cell{rollback, remove, rollback, rollback}},
	{"running", "the file has changed, but other replicas are updated first", func(s *Situation) { exists(s); s.Applied, s.Behind = "h0", true }, [4]cell{attend, remove, attend, attend}},
	{"its checkpoint is corrupt", "", func(s *Situation) { exists(s); s.Checkpoint = CheckpointCorrupt }, [4]cell{apply, remove, waits, waits}},
	{"its checkpoint is corrupt", "and it could not be replaced", func(s *Situation) { exists(s); s.Checkpoint, s.Failed, s.RetryApply = CheckpointCorrupt, "h1", later },
		[4]cell{{do: Wait, until: later}, remove, waits, waits}},
	{"its checkpoint is corrupt", "and a command applied it since", func(s *Situation) { applied(s); s.Checkpoint = CheckpointCorrupt }, [4]cell{waits, release, waits, waits}},
	{"its checkpoint is corrupt", "a command applied it since, and the file changed then", func(s *Situation) { applied(s); s.Checkpoint, s.Applied = CheckpointCorrupt, "h0" },
		[4]cell{apply, release, waits, waits}},
	{"its checkpoint is corrupt", "and its origin is unknown", func(s *Situation) { applied(s); s.Checkpoint, s.Origin = CheckpointCorrupt, OriginUnclaimed }, [4]cell{apply, release, waits, waits}},
	{"its checkpoint is corrupt", "and it has ended", func(s *Situation) { exists(s); s.Checkpoint, s.Phase = CheckpointCorrupt, PhaseEnded }, [4]cell{waits, remove, waits, waits}},
	{"its checkpoint is corrupt", "it has ended, and its origin is unknown", func(s *Situation) {
		applied(s)
		s.Checkpoint, s.Phase, s.Origin = CheckpointCorrupt, PhaseEnded, OriginUnclaimed
	},
		[4]cell{waits, release, waits, waits}},
	{"its checkpoint is corrupt", "it has ended, and the file has changed", func(s *Situation) { exists(s); s.Checkpoint, s.Phase, s.Applied = CheckpointCorrupt, PhaseEnded, "h0" },
		[4]cell{apply, remove, waits, waits}},
	{"its checkpoint is corrupt", "it was evicted, and the transition period is not over", func(s *Situation) {
		exists(s)
		s.Checkpoint, s.Phase, s.RetryEvicted = CheckpointCorrupt, PhaseEvicted, later
	}, [4]cell{{do: Wait, until: later}, remove, waits, waits}},
	{"its checkpoint is corrupt", "it was evicted, and the node is under pressure", func(s *Situation) {
		exists(s)
		s.Checkpoint, s.Phase, s.RetryEvicted, s.Pressure = CheckpointCorrupt, PhaseEvicted, since, true
	}, [4]cell{waits, remove, waits, waits}},
	{"its checkpoint is corrupt", "it was evicted, and the transition period is over", func(s *Situation) {
		exists(s)
		s.Checkpoint, s.Phase, s.RetryEvicted = CheckpointCorrupt, PhaseEvicted, since
	}, [4]cell{apply, remove, waits, waits}},
	{"its checkpoint is corrupt", "and it was stopped", func(s *Situation) { exists(s); s.Checkpoint, s.Halt = CheckpointCorrupt, HaltStopped }, [4]cell{waits, remove, waits, waits}},
	{"refused", "", func(s *Situation) { s.Failed, s.RetryApply = "h1", later },
		[4]cell{{do: Wait, until: later}, forget, waits, forget}},
	{"stopped by podrun stop", "", func(s *Situation) { exists(s); s.Halt = HaltStopped }, [4]cell{waits, remove, waits, waits}},
	{"stopped by podrun stop", "and the file has changed", func(s *Situation) { exists(s); s.Halt, s.Applied = HaltStopped, "h0" },
		[4]cell{waits, remove, waits, waits}},
	{"evicted", "the node is under pressure", func(s *Situation) {
		exists(s)
		s.Phase, s.Pressure, s.RetryEvicted = PhaseEvicted, true, since
	}, [4]cell{waits, remove, waits, waits}},
	{"evicted", "the transition period is not over", func(s *Situation) { exists(s); s.Phase, s.RetryEvicted = PhaseEvicted, later },
		[4]cell{{do: Wait, until: later}, remove, {do: Wait, until: later}, waits}},
	{"evicted", "the transition period is over", func(s *Situation) { exists(s); s.Phase, s.RetryEvicted = PhaseEvicted, since },
		[4]cell{{do: Apply, force: true}, remove, {do: Apply, force: true}, waits}},
	{"evicted", "the file has changed", func(s *Situation) { exists(s); s.Applied, s.Phase, s.RetryEvicted = "h0", PhaseEvicted, later },
		[4]cell{apply, remove, {do: Wait, until: later}, waits}},
	{"evicted", "and was stopped", func(s *Situation) { exists(s); s.Phase, s.Halt = PhaseEvicted, HaltStopped }, [4]cell{waits, remove, waits, waits}},
	{"stopped because the host was shutting down", "it still is", func(s *Situation) { exists(s); s.Halt = HaltShutDown }, [4]cell{waits, remove, waits, waits}},
	{"stopped because the host was shutting down", "it still is, and the file has changed", func(s *Situation) { exists(s); s.Halt, s.Applied = HaltShutDown, "h0" },
		[4]cell{waits, remove, waits, waits}},
	{"stopped because the host was shutting down", "it no longer is", exists, [4]cell{attend, remove, attend, attend}},
	{"running", "and is to be evicted", func(s *Situation) { exists(s); s.Phase = PhaseEvictionDue }, [4]cell{evict, remove, evict, evict}},
	{"running", "the file has changed, and it is to be evicted", func(s *Situation) { exists(s); s.Applied, s.Phase = "h0", PhaseEvictionDue },
		[4]cell{evict, remove, evict, evict}},
	{"being deleted by a command, or the command was interrupted", "the command runs", func(s *Situation) { exists(s); s.Doomed, s.Owned = true, true },
		[4]cell{waits, waits, waits, waits}},
	{"being deleted by a command, or the command was interrupted", "it was interrupted", func(s *Situation) { exists(s); s.Doomed = true },
		[4]cell{remove, remove, remove, remove}},
	{"being deleted by a command, or the command was interrupted", "it was interrupted, and the pod was stopped", func(s *Situation) { exists(s); s.Doomed, s.Halt = true, HaltStopped },
		[4]cell{remove, remove, remove, remove}},
	{"created by podrun run", "", func(s *Situation) { exists(s); s.Origin, s.Owned = OriginRun, true }, [4]cell{waits, waits, waits, waits}},
	{"created by podrun run", "which was killed", func(s *Situation) { exists(s); s.Origin = OriginRun }, [4]cell{waits, waits, waits, waits}},
	{"created by podrun run", "which was killed while it removed the pod", func(s *Situation) { exists(s); s.Origin, s.Doomed = OriginRun, true },
		[4]cell{waits, waits, waits, waits}},
	{"owned by another command", "", func(s *Situation) { exists(s); s.Owned = true }, [4]cell{waits, waits, waits, waits}},
	{"owned by another command", "and makes it", func(s *Situation) { s.Owned = true }, [4]cell{waits, waits, waits, waits}},
}

// momentTable contains the rows of the table of events in docs/serve.md that involve Decide.
var momentTable = []row{
	{"boot of the host", "a stopped pod", func(s *Situation) { exists(s); s.Halt = HaltStopped }, [4]cell{waits, remove, waits, waits}},
	{"boot of the host", "one whose Secrets were in memory only", func(s *Situation) { exists(s); s.Checkpoint = CheckpointWithoutSecrets },
		[4]cell{apply, remove, attend, attend}},
	{"boot of the host", "one whose Secrets were in memory only, and that could not be applied", func(s *Situation) {
		exists(s)
		s.Checkpoint, s.Failed, s.RetryApply = CheckpointWithoutSecrets, "h1", later
	}, [4]cell{{do: Attend, until: later}, remove, attend, attend}},
	{"boot of the host", "any other", exists, [4]cell{attend, remove, attend, attend}},
	{"restart of serve", "the sources are not readable yet", exists, [4]cell{attend, remove, attend, attend}},
	{"update: the file changes", "", func(s *Situation) { exists(s); s.Applied = "h0" }, [4]cell{apply, remove, attend, attend}},
	{"update: the file changes", "and is refused", func(s *Situation) { exists(s); s.Applied, s.Failed, s.RetryApply = "h0", "h1", later },
		[4]cell{{do: Attend, until: later}, remove, attend, attend}},
	{"update: the file changes", "was refused, and its time has come", func(s *Situation) { exists(s); s.Applied, s.Failed, s.RetryApply = "h0", "h1", since },
		[4]cell{apply, remove, attend, attend}},
	{"update: the file changes", "is refused, and the old pod can't be supervised", func(s *Situation) {
		exists(s)
		s.Applied, s.Failed, s.RetryApply, s.RetryAttend = "h0", "h1", later, later.Add(time.Second)
	}, [4]cell{{do: Wait, until: later}, remove, {do: Wait, until: later.Add(time.Second)}, {do: Wait, until: later.Add(time.Second)}}},
	{"update: the file changes", "of a pod that has ended", func(s *Situation) { exists(s); s.Applied, s.Phase = "h0", PhaseEnded }, [4]cell{apply, remove, waits, waits}},
	{"update: the file changes", "of a pod that has ended, and is refused", func(s *Situation) {
		exists(s)
		s.Applied, s.Phase, s.Failed, s.RetryApply = "h0", PhaseEnded, "h1", later
	}, [4]cell{{do: Wait, until: later}, remove, waits, waits}},
	{"update: a ConfigMap or Secret changes", "with the annotation", func(s *Situation) { exists(s); s.Applied, s.Restart = "h0", true },
		[4]cell{{do: Apply, force: true}, remove, attend, attend}},
	{"update: a ConfigMap or Secret changes", "with the annotation, of a pod that has ended", func(s *Situation) { exists(s); s.Applied, s.Restart, s.Phase = "h0", true, PhaseEnded },
		[4]cell{apply, remove, waits, waits}},
	{"update by a command", "", applied, [4]cell{attend, release, attend, attend}},
	{"update by a command", "which stopped it then", func(s *Situation) { applied(s); s.Halt = HaltStopped },
		[4]cell{waits, release, waits, waits}},
	{"update by a command", "which began to delete it then", func(s *Situation) { applied(s); s.Doomed = true },
		[4]cell{remove, remove, remove, remove}},
	{"update by a command", "and the file changed then", func(s *Situation) { applied(s); s.Applied = "h0" },
		[4]cell{apply, release, attend, attend}},
	{"downgrade and upgrade of podrun", "the pod is what the file defines", func(s *Situation) { applied(s); s.Origin = OriginUnclaimed },
		[4]cell{apply, release, attend, attend}},
	{"podrun delete of a pod that a file defines", "", func(s *Situation) { s.Applied = "h1" }, [4]cell{apply, forget, waits, forget}},
}

func TestDecideStateTable(t *testing.T) {
	cells := 0
	for _, r := range append(append([]row{}, stateTable...), momentTable...) {
		for i, source := range presences {
			s := Situation{Source: source, Now: now}
			if source == Present {
				s.Hash = "h1"
			}
			r.make(&s)
			got := Decide(s)
			if (cell{got.Do, got.Until, got.Force}) != r.want[i] {
				t.Errorf("%s (%s), source %s: %+v, want %+v", r.state, r.about, source, got, r.want[i])
			}
			if got.Do == Wait && got.Why == "" {
				t.Errorf("%s (%s), source %s: no reason to wait", r.state, r.about, source)
			}
			cells++
		}
	}
	t.Logf("%d cells", cells)
}

// TestTablesAreDocumented checks that a test in this package or in package run covers every row of
// the tables in docs/serve.md, and that docs/serve.md contains every row of the tables in this
// file.
func TestTablesAreDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	// These rows do not involve Decide: package run tests them.
	elsewhere := map[string]bool{"the container runtime does not answer": true, "the embedded runtime does not start": true, "a directory cannot be read": true, "a file is invalid or incomplete": true, "a checkpoint becomes corrupt": true, "two files define an object of the same name": true,
		// test/engine/state.TestServeKeepsAnUnreadablePod, TestServeWithoutDescriptors and TestServeWithDamagedStateFiles
		"the system cannot read a checkpoint, or serve has no free file descriptor": true, "another state file is corrupt or unreadable": true,
		// cmd/cmd.TestServeWithBrokenSettings, TestRootLost and serve.TestUnserved
		"the settings file becomes invalid": true, "the root directory is removed, moved or unmounted": true, "a Service has no ready pod for 30 s": true,
		"pod": true, "event": true}
	tested := map[string]bool{}
	for _, r := range append(append([]row{}, stateTable...), momentTable...) {
		tested[r.state] = true
	}
	documented := map[string]bool{}
	_, section, found := strings.Cut(string(data), "\n## Pod states and actions\n")
	if !found {
		t.Fatal("docs/serve.md has no section with the state tables")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		name, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " |")
		name = strings.ReplaceAll(name, "`", "")
		if !tested[name] {
			name, _, _ = strings.Cut(name, " (")
		}
		documented[name] = true
		if !tested[name] && !elsewhere[name] {
			t.Errorf("%q of docs/serve.md is in no table of this test", name)
		}
	}
	for name := range tested {
		if !documented[name] {
			t.Errorf("%q is not in docs/serve.md", name)
		}
	}
}

// situations calls f with every combination of a Situation's values, and returns the number of
// combinations.
func situations(f func(Situation)) (n int) {
	times := []time.Time{{}, since, later}
	var pods []Situation
	for _, checkpoint := range []Checkpoint{CheckpointNone, CheckpointIntact, CheckpointWithoutSecrets, CheckpointCorrupt} {
		for _, origin := range []Origin{OriginCommand, OriginSource, OriginUnclaimed, OriginRun} {
			for _, halt := range []Halt{HaltNone, HaltStopped, HaltShutDown} {
				for _, phase := range []Phase{PhaseActive, PhaseEvictionDue, PhaseEnded, PhaseEvicted} {
					pods = append(pods, Situation{Checkpoint: checkpoint, Origin: origin, Halt: halt, Phase: phase})
				}
			}
		}
	}
	for bits := range 1 << 4 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		for _, source := range presences {
			for _, applied := range []string{"", "h0", "h1"} {
				for i := range 27 {
					for _, failed := range []string{"", "h0", "h1"} {
						for _, s := range pods {
							s.Source, s.Applied, s.Failed, s.Now = source, applied, failed, now
							s.Restart, s.Doomed, s.Owned, s.Pressure = bit(0), bit(1), bit(2), bit(3)
							s.RetryApply, s.RetryAttend, s.RetryDelete, s.RetryEvicted = times[i%3], times[i/3%3], times[i/9], times[i/3%3]
							if source == Present {
								s.Hash = "h1"
							}
							f(s)
							n++
						}
					}
				}
			}
		}
	}
	return n
}

// TestDecideProperties checks properties that hold in every situation, including situations that
// cannot occur.
func TestDecideProperties(t *testing.T) {
	failures := 0
	n := situations(func(s Situation) {
		d := Decide(s)
		check := func(holds bool, what string) {
			if !holds && failures < 20 {
				failures++
				t.Errorf("%s: %+v leads to %+v", what, s, d)
			}
		}
		check(!s.Owned || d.Do == Wait, "a pod that another command works on is left alone")
		check(!s.exists() || s.Origin != OriginRun || d.Do == Wait, "a pod of podrun run is left alone")
		check(d.Do != Delete || s.exists() && (s.Source == Gone && s.Origin == OriginSource || s.Doomed), "only what is doomed, or came from a source that no longer has it, is removed")
		check(d.Do != Release || s.exists() && s.Source == Gone && s.Origin != OriginSource, "only a pod that did not come from its source is released")
		check(d.Do != Delete || s.Source != Unreachable || s.Doomed, "nothing is removed because its source can't be read")
		again := s.exists() && s.Phase == PhaseEvicted && !s.Pressure && !s.RetryEvicted.After(s.Now) && s.Halt != HaltStopped && (s.Source == Present || s.Source == Unreachable)
		check(d.Do != Apply || s.Source == Present && s.Hash == "h1" || again, "only what a source asks for is applied, and what was evicted")
		check(d.Do != Apply || !s.exists() || s.Applied != s.Hash || s.Checkpoint == CheckpointWithoutSecrets || s.Origin == OriginUnclaimed || s.Checkpoint == CheckpointCorrupt || again,
			"what was applied is not applied again, unless it was evicted, its Secrets or checkpoint are lost or its origin is unknown")
		check(d.Do != Evict || s.Phase == PhaseEvictionDue && s.exists() && s.Halt != HaltStopped && s.Origin != OriginRun, "only what is to be evicted, and runs, is evicted")
		check(!s.exists() || s.Halt != HaltStopped || s.Doomed || d.Do == Wait || d.Do == Delete || d.Do == Release, "a stopped pod is not started")
		check(!s.exists() || s.Checkpoint != CheckpointCorrupt || d.Do != Attend && d.Do != Evict && !d.Force, "a pod with a corrupt checkpoint is replaced from its source, or left alone")
		check(!s.exists() || s.Checkpoint != CheckpointCorrupt || d.Do != Apply || s.Applied != s.Hash || s.Origin == OriginSource || s.Origin == OriginUnclaimed, "the pod of a command is not replaced because its checkpoint is corrupt")
		check(!s.exists() || s.Checkpoint != CheckpointCorrupt || d.Do != Apply || s.Applied != s.Hash || !s.ended() || again, "a pod that has ended is not started because its checkpoint is corrupt")
		check(!s.exists() || !s.ended() || d.Do != Attend, "a pod that has ended is not attended")
		check(d.Do != Forget || !s.exists() && s.Source != Present && s.Source != Unreachable, "only a pod that does not exist is forgotten")
		check(d.Do == Wait || d.Do == Attend || d.Until.IsZero(), "only waiting and attending has an end")
		check(d.Until.IsZero() || d.Until.After(s.Now), "nothing is waited for that has passed")
		check(d.Do == Apply || !d.Force, "only applying is forced")
		check(!d.Force || s.Restart && !s.ended() || again, "only what asks for a restart, and runs, or was evicted is restarted")
		check(Decide(s) == d, "it is a function")
		// podrun retries every failed step after some time, even without a signal.
		held := d.Do == Wait && (d.Why == "could not be applied" || d.Why == "could not be removed" || d.Why == "could not be supervised")
		check(!held || !d.Until.IsZero(), "what failed is tried again")
	})
	t.Logf("%d situations", n)
}

// TestFailingStepsAreNotRepeatedAtOnce covers a pod whose steps all fail, in any order: podrun
// must retry them at intervals.
func TestFailingStepsAreNotRepeatedAtOnce(t *testing.T) {
	for name, kind := range map[string]problem.Kind{"refused": problem.Refused, "broken runtime": problem.Runtime} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Supervisor{node: &node.Node{Settings: nodeconfig.Settings{RootDir: t.TempDir()}, Warn: func(problem.List) {}}}
				p := newPod(s, identity.Pod{Namespace: "default", Name: "web"})
				begun, steps := time.Now(), 0
				for time.Since(begun) < 10*time.Minute && steps < 10000 {
					// The file has changed, and neither the new pod nor the old one can run.
					in := Situation{Source: Present, Hash: "h1", Checkpoint: CheckpointIntact, Applied: "h0", Now: time.Now()}
					p.failures.addTo(&in)
					step := Decide(in)
					if step.Do == Wait {
						time.Sleep(max(time.Until(step.Until), time.Millisecond))
						continue
					}
					steps++
					// The files are not part of this test, so the pod exists.
					in.Checkpoint = CheckpointNone
					p.conclude(step, stepInput{Situation: in, objects: &manifest.Objects{Pods: []manifest.Pod{{Object: &corev1.Pod{}}}}}, &problem.Error{Kind: kind, Err: errors.New("no")})
				}
				// podrun retries each of the two steps after 1, 2, 4, 8 s, and then every 10 s or 1 min.
				if steps > 130 || steps < 20 {
					t.Errorf("%d steps in 10 minutes", steps)
				}
			})
		})
	}
}

// TestFailedRemovalIsNotRepeatedAtOnce covers a removal that has begun and fails: podrun must
// retry it at intervals.
func TestFailedRemovalIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Supervisor{node: &node.Node{Settings: nodeconfig.Settings{RootDir: t.TempDir()}, Warn: func(problem.List) {}}}
		p := newPod(s, identity.Pod{Namespace: "default", Name: "web"})
		in := stepInput{Situation: Situation{Source: Gone, Checkpoint: CheckpointIntact, Doomed: true}}
		for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
			p.conclude(Step{Do: Delete}, in, errors.New("no"))
			if got := time.Until(p.failures.last(Delete).retry); got != want*time.Second {
				t.Errorf("tried again after %s, want %d s", got, want)
			}
		}
	})
}

// TestFinal covers pods of an API server: once they have ended, neither a change nor the end of node
// pressure starts them again.
func TestFinal(t *testing.T) {
	ended := func(change func(*Situation)) Situation {
		s := Situation{Source: Present, Hash: "h1", Now: now}
		exists(&s)
		s.Controller, s.Phase = ControllerCluster, PhaseEnded
		change(&s)
		return s
	}
	for name, s := range map[string]Situation{
		"changed":     ended(func(s *Situation) { s.Applied = "h0" }),
		"evicted":     ended(func(s *Situation) { s.Phase, s.RetryEvicted = PhaseEvicted, since }),
		"unreachable": ended(func(s *Situation) { s.Source, s.Phase, s.RetryEvicted = Unreachable, PhaseEvicted, since }),
	} {
		if step := Decide(s); step.Do != Wait {
			t.Errorf("%s: %s", name, step.Do)
		}
	}
	if step := Decide(ended(func(s *Situation) { s.Source = Gone })); step.Do != Delete {
		t.Errorf("gone: %s", step.Do)
	}
}

// TestPhaseOf covers what a process knows about a pod that has terminated, was evicted, or is to be evicted.
func TestPhaseOf(t *testing.T) {
	for _, c := range []struct {
		terminated, evicted, evict bool
		want                       Phase
	}{
		{false, false, false, PhaseActive},
		{false, true, false, PhaseActive}, // an earlier process evicted it: attending it finds that
		{false, false, true, PhaseEvictionDue},
		{false, true, true, PhaseEvictionDue},
		{true, false, false, PhaseEnded},
		{true, false, true, PhaseEnded},
		{true, true, true, PhaseEvicted},
	} {
		if got := phaseOf(c.terminated, c.evicted, c.evict); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
