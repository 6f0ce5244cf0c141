package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
)

// TestPercent checks the percentages after a collection and of a supervisor.
func TestPercent(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set")
	}
	for percentNow() != laterPercent { // the cleanup runs soon after a collection
		runtime.GC()
	}
	Supervise()
	runtime.GC()
	if now := percentNow(); now != supervisorPercent {
		t.Errorf("a supervisor has %d %%, not %d %%", now, supervisorPercent)
	}
}

func percentNow() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestNoSampling checks that package heap disables the sampling. It allocates 64 MB. With Go's
// default rate, about 128 of these allocations would be sampled. Without package heap, sampling is
// enabled in a test, because package testing reaches runtime.MemProfile.
func TestNoSampling(t *testing.T) {
	if runtime.MemProfileRate != 0 {
		t.Errorf("runtime.MemProfileRate is %d, not 0", runtime.MemProfileRate)
	}
	before := sampled()
	allocate()
	// Each P (a processor of Go's scheduler) still records one allocation before it uses the
	// changed rate.
	if n := sampled() - before; n > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d allocations were sampled", n)
	}
}

// TestSampled checks that sampled counts the allocations that sampling records.
func TestSampled(t *testing.T) {
	t.Cleanup(func() { runtime.MemProfileRate = 0 })
	before := sampled()
	runtime.MemProfileRate = 1
	allocate()
	runtime.MemProfileRate = 0
	if n := sampled() - before; n < blocks {
		t.Errorf("%d of %d allocations were sampled at a rate of 1", n, blocks)
	}
}

const blocks = 1 << 10

var kept []byte

//go:noinline
func allocate() {
	for range blocks {
		kept = make([]byte, 64<<10)
	}
}

// sampled returns the number of sampled allocations of the function allocate.
func sampled() int64 {
	// Two collections publish the records of all earlier allocations.
	runtime.GC()
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+100)
	n, _ = runtime.MemProfile(records, true)
	var sum int64
	for _, record := range records[:n] {
		if ofAllocate(record.Stack()) {
			sum += record.AllocObjects
		}
	}
	return sum
}

// ofAllocate reports whether the function allocate is in the stack. The innermost frames are those
// of package runtime.
func ofAllocate(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/heap.allocate") {
			return true
		}
		if !more {
			return false
		}
	}
}

func TestSupervise(t *testing.T) {
	before := debug.SetGCPercent(percent)
	defer debug.SetGCPercent(before)
	for gogc, want := range map[string]int{"": supervisorPercent, "70": 70} {
		t.Setenv("GOGC", gogc)
		debug.SetGCPercent(70)
		Supervise()
		if got := debug.SetGCPercent(percent); got != want {
			t.Errorf("with GOGC=%q, the percentage is %d, want %d", gogc, got, want)
		}
	}
}
