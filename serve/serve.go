package serve

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// Options are the options of Run.
type Options struct {
	// manifest directories or https URLs; if empty, podrun supervises only pods that commands applied
	Dirs []string
	// SettingsDirs is true if Dirs come from the settings: a reload then also replaces Dirs.
	SettingsDirs bool
	Remote       RemoteOptions    // how URLs are read
	SourceVerify string           // the file with the keys of signed sources (source.Verification); "" for none
	Manifest     manifest.Options // how files are read
	Claims       map[string]string
	// maximum interval between two reads of the directories; 0 means 20 s
	Relist       time.Duration
	AllowKubelet bool
	// Cluster is the cluster of which this host is a node; nil means none.
	Cluster Cluster
	// API configures the HTTP API.
	API APIOptions
	// Runtime returns the state of the runtime; nil if this process does not start the runtime. It
	// must not wait.
	Runtime func() RuntimeState
	// SettingsFault describes the settings file if podrun does not use its content, else it returns ""; it may be
	// nil.
	SettingsFault func() string
	// Reload receives changed settings; nil for none.
	Reload <-chan *run.Node
	// Ready is called after the first read of the directories. Progress is called every Heartbeat
	// with a line about the supervised pods, unless a worker is stuck.
	Ready     func()
	Progress  func(string)
	Heartbeat time.Duration
}

// Run supervises the pods that manifest directories define, and those that commands applied, until
// ctx ends. After that, the containers continue to run.
func Run(ctx context.Context, e *run.Node, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.SettingsFault == nil {
		o.SettingsFault = func() string { return "" }
	}
	if o.Runtime == nil {
		o.Runtime = func() RuntimeState { return RuntimeState{} }
	}
	c, err := newComponents(ctx, e, o)
	if err != nil {
		return err
	}
	list := c.list()
	list.observe(e)
	s := newSupervisor(ctx, e, o, c)
	end := list.start(ctx)
	defer end()
	defer cancel()
	go list.reload(ctx, o.Reload, s)
	return s.Run(ctx)
}

// OfAPIServer reports whether SourceOf has returned an API server, not a file.
func OfAPIServer(from string) bool { return source.IsAPIServerPath(from) }

// SourceOf returns the file from which a running supervisor got a pod; "" if there is none. The pod of a Job has none:
// the record of the Job is not a file of the user, and the Job decides whether to replace the pod.
func SourceOf(e *run.Node, id identity.Pod) string {
	r, err := store.ReadSource(e.Layout(), id)
	if err != nil || r == nil || !e.Supervised() || filepath.Dir(r.Path) == e.Layout().Jobs() {
		return ""
	}
	return source.Shown(r.Path)
}

// WorkloadOf returns the workload whose record makes a supervisor start a deleted pod again, such as deployment/web; ""
// if there is none, or if no supervisor runs.
func WorkloadOf(e *run.Node, id identity.Pod) string {
	if !e.Supervised() {
		return ""
	}
	records, _, err := store.ReadWorkloads(e.Layout(), id.Namespace)
	if err != nil {
		return ""
	}
	for _, r := range records {
		index, ok := manifest.ReplicaIndex(r.ID.Name, id.Name)
		if ok && index < int(r.Replicas) && !r.Deleted {
			return strings.ToLower(r.Kind) + "/" + r.ID.Name
		}
	}
	return ""
}
