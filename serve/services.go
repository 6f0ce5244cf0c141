package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

const (
	// servicesEvery is the interval at which podrun checks the rules of Services even if nothing
	// changed: another program may have removed them.
	servicesEvery = 30 * time.Second
	// servicesPause is the minimum time between two synchronizations, so that changes of many pods
	// cause only a few of them.
	servicesPause = 100 * time.Millisecond
	servicesRetry = 2 * time.Second
)

// services keeps the Services of the manifest directories, and the names and rules of all Services, up
// to date.
type services struct {
	engine  *run.Node
	changed wait.Signal
	// endWatch ends watchRecords
	endWatch func()
	// removed is called when a record was removed: if a file still defines the Service, the sources must be read
	// again
	removed func()

	mu       sync.Mutex
	reported string       // the last reported error, so that the same error is reported only once
	refused  problem.List // the Services of files that this host refuses
	omitted  problem.List // the Services that the network cannot provide
	failed   error        // of the last synchronization
	// unserved are the Services without an endpoint, and the times at which podrun noticed this
	unserved map[identity.Pod]unserved
}

// unserved is a Service without an endpoint.
type unserved struct {
	since    time.Time
	reported bool
}

// unservedAfter is the time after which podrun reports a Service without an endpoint: pods that start or restart
// become ready within this time.
const unservedAfter = 30 * time.Second

// newServices returns the Services of an engine. The argument removed is called when a command has removed the
// record of a Service.
func newServices(e *run.Node, removed func()) *services {
	return &services{engine: e, removed: removed, changed: wait.NewSignal()}
}

// observe makes a node report the pods whose state changes, and the Services without an endpoint.
func (s *services) observe(n *run.Node) {
	n.Observer.Changed = func(identity.Pod) { s.signal() }
	n.Observer.Unserved = func(list []*corev1.Service) { s.noteUnserved(list, time.Now()) }
}

// signal requests a synchronization.
func (s *services) signal() { s.changed.Send() }

// apply records the Services that the manifest directories define, and removes those that their file
// no longer defines. The pods that need the Services start afterwards.
func (s *services) apply(ctx context.Context, snapshot *source.Snapshot, want *source.Desired) {
	defer s.signal()
	wanted := want.Shared.Services
	notes := servicesync.Notes(wanted)
	s.engine.SendWarnings(notes[:min(len(notes), maxServiceNotes)])
	// A Service that this host refuses does not affect the others.
	_, _, refused := servicesync.Apply(ctx, s.engine, wanted, servicesync.Options{Origins: want.ServicePaths, RecordsOnly: true, Partial: true})
	_, err := servicesync.DeleteRecords(ctx, s.engine, func(one *corev1.Service, origin string) bool {
		if origin == "" || wanted[one.Namespace+"/"+one.Name] != nil {
			return false
		}
		may, _ := snapshot.MayDefine(origin)
		return !may
	})
	s.mu.Lock()
	s.refused = nil
	if joined, ok := refused.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			s.refused = append(s.refused, problem.WarningOf(one))
		}
	} else if refused != nil {
		s.refused = problem.List{problem.WarningOf(refused)}
	}
	s.mu.Unlock()
	s.report(ctx, errors.Join(refused, err))
}

// synchronized records the result of a synchronization, and prints each problem once.
func (s *services) synchronized(ctx context.Context, omitted problem.List, err error) {
	for _, p := range omitted {
		s.engine.WarnOnce(p)
	}
	s.mu.Lock()
	if s.failed = err; err == nil {
		s.omitted = omitted
	}
	s.mu.Unlock()
	s.report(ctx, err)
}

// noteUnserved emits an event for each Service that has had no endpoint for unservedAfter, once, and when it has one
// again. The caller holds the lock of Services, so that no journal is written after its Service was deleted.
func (s *services) noteUnserved(list []*corev1.Service, now time.Time) {
	var notes []func() // after s.mu is unlocked, because /readyz must not wait for the file system
	note := func(id identity.Pod, kind, reason, message string) {
		notes = append(notes, func() { s.emit(id, event.Event{Type: kind, Reason: reason, Message: message}) })
	}
	s.mu.Lock()
	before := s.unserved
	if before == nil {
		before = s.unservedBefore()
	}
	s.unserved = map[identity.Pod]unserved{}
	for _, one := range list {
		id := identity.Pod{Namespace: one.Namespace, Name: one.Name}
		u, known := before[id]
		if !known {
			u.since = now
		}
		if !u.reported && now.Sub(u.since) >= unservedAfter {
			u.reported = true
			note(id, event.Warning, event.NoEndpoints, fmt.Sprintf("no pod that it selects is ready, so connections to it fail; run 'podrun get pods -n %s -l %s'",
				one.Namespace, labels.FormatLabels(one.Spec.Selector)))
		}
		s.unserved[id] = u
	}
	for id, u := range before {
		if _, still := s.unserved[id]; u.reported && !still && store.HasService(s.engine.Layout(), id) {
			note(id, event.Normal, event.EndpointsReady, "a pod that it selects is ready")
		}
	}
	s.mu.Unlock()
	for _, note := range notes {
		note()
	}
}

// unservedBefore returns the Services that an earlier supervisor reported as Services without an endpoint.
func (s *services) unservedBefore() map[identity.Pod]unserved {
	out := map[identity.Pod]unserved{}
	ids, _ := store.ServicesWithEvents(s.engine.Layout()) // without the earlier events, they are reported again
	for _, id := range ids {
		events, _ := store.ReadServiceJournal(s.engine.Layout(), id)
		if n := len(events); n > 0 && events[n-1].Reason == event.NoEndpoints {
			out[id] = unserved{since: events[n-1].Time, reported: true}
		}
	}
	return out
}

// emit adds an event to the journal of a Service.
func (s *services) emit(id identity.Pod, e event.Event) {
	j := store.Journal{Pod: id, Kind: "Service", Next: s.engine.Emit}
	err := j.Open(s.engine.Layout())
	j.Emit(e)
	if err = errors.Join(err, j.Close()); err != nil {
		s.engine.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// note names the Services without an endpoint, for /readyz?verbose; "" if there are none.
func (s *services) note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for id, u := range s.unserved {
		if u.reported {
			names = append(names, id.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "no pod is ready for " + strings.Join(names[:min(len(names), maxServiceNotes)], ", ")
}

// problem describes the Services that do not work, for /readyz; "" if there are none. The check of the
// runtime reports that the runtime does not respond.
func (s *services) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	problems := slices.Concat(s.refused, s.omitted)
	var parts []string
	for _, p := range problems[:min(len(problems), maxServiceNotes)] {
		parts = append(parts, p.String())
	}
	if n := len(problems) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more Services", n))
	}
	if s.failed != nil && !observe.IsUnavailable(s.failed) {
		parts = append(parts, s.failed.Error())
	}
	return strings.Join(parts, "; ")
}

// maxServiceNotes is the maximum number of warnings for one read of the directories.
const maxServiceNotes = 20

// run synchronizes names and rules until ctx ends. Then it ends the watch of watchRecords.
func (s *services) run(ctx context.Context) {
	defer s.endWatch()
	for {
		every := servicesEvery
		omitted, err := servicesync.Sync(ctx, s.engine)
		if s.synchronized(ctx, omitted, err); err != nil {
			every = servicesRetry // a pod may have changed while it was read
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(servicesPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-time.After(wait.Period(every)):
		}
	}
}

// report prints an error once. Another part of the supervisor reports that the runtime does not respond.
func (s *services) report(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.reported = ""
		return
	}
	if ctx.Err() != nil || observe.IsUnavailable(err) || err.Error() == s.reported {
		return
	}
	s.reported = err.Error()
	s.engine.SendWarnings(problem.List{problem.WarningOf(err)})
}

// watchRecords calls signal when a command changes the record of a Service. If podrun cannot watch the
// directory, the next periodic check detects the change.
func (s *services) watchRecords() {
	dir := string(s.engine.Layout().Services())
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = errors.Join(store.MakeStateDir(dir), w.Add(dir))
	}
	if err != nil {
		s.engine.SendWarnings(problem.List{problem.WarningOf(err)})
		if s.endWatch = func() {}; w != nil {
			_ = w.Close()
		}
		return
	}
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			select {
			case <-w.Errors: // events may have been lost
				s.signal()
				s.removed()
			case ev, ok := <-w.Events:
				if !ok {
					return
				}
				if _, record := identity.NamedPod(filepath.Base(ev.Name)); record {
					s.signal()
					if ev.Has(fsnotify.Remove) {
						s.removed()
					}
				}
			}
		}
	})
	s.endWatch = func() {
		_ = w.Close()
		loop.Wait()
	}
}
