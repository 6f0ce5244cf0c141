package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A test that sleeps for a while and then expects something fails on a slow machine, and so does a
// test that waits for at most a number of seconds, or that compares the time that something took with an
// upper bound. In a bubble of testing/synctest, time is virtual. Outside, tests use test/patience.

// realTime are the functions of tests that do one of these outside of a bubble, or for which
// this rule cannot determine that they run in one, with the reason why a slow machine does not make them
// fail.
var realTime = map[string]string{
	"cmd/cli.TestSameSignalWhilePrinting":              "the interval of duplicate signals is in real time; a slow machine makes it longer",
	"cri.TestExecInputUnread":                          "gives the client time to fill its buffers; if it does not, the test still passes",
	"cri/critest.TestSocket":                           "the interval between attempts; the test repeats them until one succeeds",
	"embedded/bundle/podrun-net.TestLockOfAnotherUser": "another module, which cannot import test/patience; the bound is half of the limit of a wait, 20 s",
	"host/nodeconfig.TestParseHostile":                 "CPU time of the thread",
	"test/engine/serve.try":                            "runs in a bubble; another function has the same name",
	"imagepull.PullImage":                              "waits only in bubbles",
	"manifest/input.TestF9ReadEndsWithContext":         "a server that sends slowly, without end",
	"run/node.TestNodeLockIsHandedOn":                  "widens a race",
	"serve/cluster.TestManyPods":                       "runs in a bubble, in a variable",
	"serve/cluster.file":                               "runs in a bubble; a variable has the same name",
	"serve/jobs.TestChangeAfterPass":                   "at least a tick of the clock of the file system",
	"serve/source.TestLoop":                            "waits as long as the reader requests; the test has a limit",
	"serve/source.TestReadManyFiles":                   "at least the interval in which the reader distrusts modification times",
	"serve/source.TestRemoteFailures":                  "a server that sends slowly, without end",
	"serve/source.calm":                                "at least the interval in which signals of the previous change arrive",
	"serve/source.save":                                "a program that writes a file slowly",
	"serve/source.settled":                             "waits as long as the reader requests",
	"serve/source.writersOf":                           "editors that pause between their steps",
	"serve/supervisor.Continue":                        "runs in a bubble, in a method",
	"test/crash.harmAt":                                "ring 3: waits for a call of podrun, which has a limit",
	"test/crash.runs":                                  "ring 3: at least the interval in which a leftover may disappear",
	"test/crash.stays":                                 "ring 3: at least the interval in which a leftover may disappear",
	"test/crash.until":                                 "ring 3: the interval between attempts",
	"test/engine/ownership.TestF1RollbackOfALoser":     "runs in a bubble, in a variable",
	"test/engine/serve.TestServeDeletesItsPods":        "runs in a bubble, in a variable",
	"test/engine/serve.TestServeKeepsPodsOfCommands":   "runs in a bubble, in a variable",
	"test/engine/serve.TestServeReloadsSources":        "at least the interval after which serve treats a file as removed",
	"test/engine/serve.boot":                           "runs in a bubble; another function has the same name",
	"test/engine/serve.restartAfter":                   "runs in a bubble; another function has the same name",
	"test/engine/serve.run":                            "runs in a bubble; another function has the same name",
	"test/engine/serve.settle":                         "runs in a bubble; another function has the same name",
	"test/engine/serve.tick":                           "runs in a bubble; another function has the same name",
	"test/fault.exitAttached":                          "ring 2: the interval between attempts",
	"test/fault.removeGroup":                           "ring 2: the interval between attempts",
	"test/fault.tryPair":                               "ring 2: chooses the time of a fault",
	"test/fault.until":                                 "ring 2: the interval between attempts",
	"test/hostile.TestTokens":                          "ring 2: the interval between attempts",
}

// checkSleeps finds calls of time.Sleep and time.After, and upper bounds of durations, in tests, outside of
// bubbles.
func checkSleeps(all tree) []string {
	packages := map[string][]*source{}
	shared := map[string]bool{}
	for _, s := range all {
		if s.test {
			packages[s.pkg] = append(packages[s.pkg], s)
		} else if strings.HasPrefix(s.pkg, "test/") {
			for name := range makersOf([]*source{s}) {
				shared[path.Base(s.pkg)+"."+name] = true
			}
		}
	}
	var out []string
	used := map[string]bool{}
	for pkg, files := range packages {
		for name, where := range newBubbles(files, shared).sleeps() {
			function := pkg + "." + name
			if used[function] = true; realTime[function] == "" {
				out = append(out, where+": "+name+" depends on real time: use testing/synctest or test/patience, or add "+function+" to the table in test/arch/sleeps_test.go, with the reason")
			}
		}
	}
	for function := range realTime {
		if !used[function] {
			out = append(out, function+": does not depend on real time: remove it from the table in test/arch/sleeps_test.go")
		}
	}
	return sorted(out)
}

// bubbles knows which functions of a package's tests run in bubbles.
type bubbles struct {
	files []*source
	// makers are the names of functions that call synctest.Test: a function that is passed to one of them
	// runs in a bubble.
	makers map[string]bool
	inside map[string]bool // the names of functions that run only in bubbles
}

// newBubbles reads the tests of a package. shared are the makers in packages that tests import, such as
// rig.Serve.
func newBubbles(files []*source, shared map[string]bool) *bubbles {
	b := &bubbles{files: files, makers: makersOf(files), inside: map[string]bool{}}
	maps.Copy(b.makers, shared)
	b.makers["synctest.Test"] = true
	b.functions(func(_ *source, f *ast.FuncDecl) {
		if !strings.HasPrefix(f.Name.Name, "Test") {
			b.inside[f.Name.Name] = true
		}
	})
	// A function that is not called from a bubble, or also from elsewhere, does not run only in bubbles.
	for before := -1; before != len(b.inside); {
		before = len(b.inside)
		inside, outside := map[string]bool{}, map[string]bool{}
		b.functions(func(_ *source, f *ast.FuncDecl) {
			b.walk(f, func(n ast.Node, bubble bool) {
				if id, ok := n.(*ast.Ident); ok && id != f.Name {
					if bubble {
						inside[id.Name] = true
					} else {
						outside[id.Name] = true
					}
				}
			})
		})
		maps.DeleteFunc(b.inside, func(name string, _ bool) bool { return outside[name] || !inside[name] })
	}
	return b
}

// makersOf returns the names of the functions that call synctest.Test and are not tests.
func makersOf(files []*source) map[string]bool {
	makers := map[string]bool{}
	eachFunction(files, func(_ *source, f *ast.FuncDecl) {
		if !strings.HasPrefix(f.Name.Name, "Test") && containsCall(f.Body, "synctest.Test") {
			makers[f.Name.Name] = true
		}
	})
	return makers
}

// functions calls visit for each function.
func (b *bubbles) functions(visit func(*source, *ast.FuncDecl)) { eachFunction(b.files, visit) }

func eachFunction(files []*source, visit func(*source, *ast.FuncDecl)) {
	for _, s := range files {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				visit(s, f)
			}
		}
	}
}

// walk calls visit for each node of a function, and reports whether the node runs in a bubble.
func (b *bubbles) walk(f *ast.FuncDecl, visit func(n ast.Node, bubble bool)) {
	var in func(n ast.Node, bubble bool)
	in = func(n ast.Node, bubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			visit(n, bubble)
			call, ok := n.(*ast.CallExpr)
			if !ok || !b.makers[called(call)] && !b.makers[lastOf(called(call))] {
				return true
			}
			in(call.Fun, bubble)
			for _, a := range call.Args {
				in(a, true)
			}
			return false
		})
	}
	in(f.Body, b.inside[f.Name.Name])
}

// sleeps returns the functions that sleep, or bound a duration, outside of bubbles, with a place.
func (b *bubbles) sleeps() map[string]string {
	out := map[string]string{}
	b.functions(func(s *source, f *ast.FuncDecl) {
		b.walk(f, func(n ast.Node, bubble bool) {
			if !bubble && (sleepsAt(n) || bounds(n)) {
				out[f.Name.Name] = fmt.Sprintf("%s:%d", s.name, s.set.Position(n.Pos()).Line)
			}
		})
	})
	return out
}

func sleepsAt(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && slices.Contains([]string{"time.Sleep", "time.After", "time.Tick"}, called(call))
}

// bounds reports whether a node compares the time that something took with an upper bound.
func bounds(n ast.Node) bool {
	compared, ok := n.(*ast.BinaryExpr)
	if !ok || compared.Op != token.GTR && compared.Op != token.GEQ {
		return false
	}
	id, ok := compared.X.(*ast.Ident)
	return ok && id.Name == "took" || containsCall(compared.X, "time.Since")
}

// called returns the name of the called function, such as time.Sleep or r.start.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}

func lastOf(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// containsCall reports whether a function is called below a node.
func containsCall(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && called(call) == name {
			found = true
		}
		return !found
	})
	return found
}

// TestSleeps checks which functions checkSleeps finds.
func TestSleeps(t *testing.T) {
	all := sources(t, map[string]string{"a/a_test.go": `package a
func TestBubble(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1); helper() }) }
func TestMaker(t *testing.T) { maker(t, func() { <-time.After(1); x.method() }) }
func maker(t *testing.T, do func()) { synctest.Test(t, func(*testing.T) { do() }) }
func helper() { time.Sleep(1); deeper() }
func deeper() { time.Sleep(1) }
func (r *rig) method() { time.Sleep(1) }
func TestReal(t *testing.T) { time.Sleep(1); both() }
func TestBoth(t *testing.T) { synctest.Test(t, func(t *testing.T) { both() }) }
func both() { <-time.After(1) }
func unused() { time.Sleep(1) }
func TestBound(t *testing.T) { if took := time.Since(begun); took > 1 { t.Error() } }
func TestLower(t *testing.T) { if took := time.Since(begun); took < 1 { t.Error() } }
func TestShared(t *testing.T) { rig.Serve(t, func(t *testing.T, s *rig.Supervised) { time.Sleep(1) }) }
func TestPatience(t *testing.T) { patience.Wait(t, 1, "", nil) }
`})
	got := slices.Sorted(maps.Keys(newBubbles(all, map[string]bool{"rig.Serve": true}).sleeps()))
	if want := []string{"TestBound", "TestReal", "both", "unused"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
