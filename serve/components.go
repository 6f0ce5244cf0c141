package serve

import (
	"context"
	"slices"
	"sync"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/jobs"
	"github.com/podrun/podrun/serve/supervisor"
)

// components are the parts of podrun serve, except the supervisor of the pods.
type components struct {
	changed  wait.Signal         // receives a signal when the sources must be read again
	services *services           // the names and rules of Services
	states   <-chan identity.Pod // see stateChanges
	files    *stateFiles         // the state files that podrun cannot use
	api      *api
	jobs     *jobs.Controller // Jobs and CronJobs
	cluster  Cluster          // nil if this host is not a node of a cluster
	sources  *sources         // nil if there are no directories
}

// newComponents makes the components, each from those above it. After an error, only goroutines that end with ctx run.
func newComponents(ctx context.Context, e *run.Node, o Options) (c components, err error) {
	c.changed = wait.NewSignal()
	reread := c.changed.Send
	c.services = newServices(e, reread)
	c.states = stateChanges(ctx, e, c.services.signal, reread)
	c.files = &stateFiles{engine: e}
	c.api = newAPI(e, o, c.services, c.files)
	if c.jobs, err = newJobs(e, reread); err != nil {
		return c, err
	}
	c.cluster = attach(o.Cluster, e, reread, c.api)
	if c.sources, err = newSources(ctx, e, o, reread); err != nil {
		return c, err
	}
	c.services.watchRecords() // before the first read of the sources, so that no removal is missed
	return c, nil
}

// component contains what Run does with one component. Each function may be nil.
type component struct {
	// observe makes a node report to the component: the first node, and the node of each reload.
	observe func(*run.Node)
	// run works until its context ends. The supervisor runs the components without this function.
	run func(context.Context)
	// reload makes the component continue with the settings of a node. The supervisor has them already, so that it uses
	// them for what the component reads.
	reload func(*run.Node)
	// close ends the component after its context has ended.
	close func()
}

// list returns the components in the order in which they observe a node. They run concurrently, and end in this order:
// first all run functions return, and then the close functions are called, the last one first. The API ends last,
// because it shows the others.
func (c *components) list() componentList {
	list := componentList{
		{observe: c.services.observe, run: c.services.run},
		{run: c.files.run},
		{observe: c.api.observe, close: c.api.close}, // listens when this process has become the supervisor
		{observe: func(n *run.Node) { noteJobs(c.jobs, n) }},
	}
	if c.cluster != nil {
		list = append(list, component{observe: func(n *run.Node) { noteCluster(c.cluster, n) }, run: c.cluster.Run})
	}
	if c.sources != nil {
		list = append(list, component{reload: c.sources.reload, close: c.sources.close})
	}
	return list
}

// componentList is the result of components.list.
type componentList []component

// observe makes a node report to the components.
func (l componentList) observe(n *run.Node) {
	for _, c := range l {
		if c.observe != nil {
			c.observe(n)
		}
	}
}

// start runs the components. The returned function waits until they have ended; ctx must end before it is called.
func (l componentList) start(ctx context.Context) (end func()) {
	var loops sync.WaitGroup
	for _, c := range l {
		if c.run != nil {
			loops.Go(func() { c.run(ctx) })
		}
	}
	return func() {
		loops.Wait()
		for _, c := range slices.Backward(l) {
			if c.close != nil {
				c.close()
			}
		}
	}
}

// reload makes the components and the supervisor continue with the settings of each node that it receives, until ctx
// ends.
func (l componentList) reload(ctx context.Context, nodes <-chan *run.Node, s *supervisor.Supervisor) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-nodes:
			l.observe(n)
			s.Reload(n)
			for _, c := range l {
				if c.reload != nil {
					c.reload(n)
				}
			}
		}
	}
}
