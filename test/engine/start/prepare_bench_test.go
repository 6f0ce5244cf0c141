package start

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// BenchmarkPrepare reads the facts, and plans and admits one pod on a host with a hundred pods.
// Like a podrun process, it uses a socket. It must take at most 10 ms, because apply performs these
// steps under the node's lock.
//
//	go test ./test/engine/start -run '^$' -bench Prepare
func BenchmarkPrepare(b *testing.B) {
	const pods = 100
	r := rig.New(b, critest.AnyImage())
	var texts []string
	for i := range pods {
		texts = append(texts, rig.PodText(fmt.Sprintf("pod-%d", i), "Always", "containers:",
			fmt.Sprintf("- {name: app, image: registry.example/app:1, ports: [{containerPort: 80, hostPort: %d}], resources: {requests: {cpu: 1m, memory: 1Mi}}}", 30000+i),
			"- {name: web, image: registry.example/web:1}"))
	}
	if _, err := r.ApplyAll(b.Context(), texts...); err != nil {
		b.Fatal(err)
	}
	e := r.Engine()
	e.Client = r.Dial()
	objects := rig.Load(b, rig.PodText("new", "Always", "containers: [{name: app, image: registry.example/app:1, ports: [{containerPort: 80, hostPort: 31999}]}]"))
	before := cpuTime(b)
	for b.Loop() {
		targets, problems, err := e.Prepare(b.Context(), objects, run.PrepareOptions{AllowKubelet: true})
		if err != nil || len(problems.Errors()) > 0 || len(targets[0].Plan.Facts.Pods) != pods {
			b.Fatal(err, problems)
		}
	}
	b.StopTimer()
	// On a busy machine, CPU times are comparable, whereas wall times are not. The CPU time
	// includes that of the fake runtime.
	b.ReportMetric(float64(cpuTime(b)-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
	for _, result := range r.Delete(run.DeleteOptions{}) {
		if result.Err != nil {
			b.Error(result.Err)
		}
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
