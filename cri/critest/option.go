package critest

import (
	"net/netip"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Option sets up a Runtime.
type Option func(*options)

type options struct {
	profile              Profile
	runtimeName, version string
	timeout              time.Duration
	anyImage             bool
	noEvents             bool
	terse                bool
	driver               *runtimeapi.CgroupDriver
	handlers             []*runtimeapi.RuntimeHandler
	features             *runtimeapi.RuntimeFeatures
	ranges               []netip.Prefix
	cores                float64
	stateDir             string
}

// StateDir is where the runtime says it has the resolv.conf and the hostname that it
// mounts into containers, in a directory of the sandbox's ID; it says nothing by default,
// and writes no files.
func StateDir(dir string) Option { return func(o *options) { o.stateDir = dir } }

// UsesCPU is how many cores each running container uses; none by default.
func UsesCPU(cores float64) Option { return func(o *options) { o.cores = cores } }

// AnyImage makes every image present, with no user, as one layer of a server.
func AnyImage() Option { return func(o *options) { o.anyImage = true } }

// Timeout is that of Client's ordinary calls; 2 minutes by default.
func Timeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// Version is what the runtime says it is; "containerd" and "v1.6.20-fake" by
// default.
func Version(name, version string) Option {
	return func(o *options) { o.runtimeName, o.version = name, version }
}

// CgroupDriver makes RuntimeConfig answer, as containerd 2 does; by default it
// is Unimplemented.
func CgroupDriver(d runtimeapi.CgroupDriver) Option {
	return func(o *options) { o.driver = &d }
}

// Handler adds a runtime handler beside "" and "runc". Status lists the handlers
// given here, and none by default, as containerd 1.6.
func Handler(name string, features *runtimeapi.RuntimeHandlerFeatures) Option {
	return func(o *options) {
		o.handlers = append(o.handlers, &runtimeapi.RuntimeHandler{Name: name, Features: features})
	}
}

// Features are those that Status advertises; none by default.
func Features(f *runtimeapi.RuntimeFeatures) Option {
	return func(o *options) { o.features = f }
}

// NoEvents makes GetContainerEvents Unimplemented, as in containerd 1.6.
func NoEvents() Option { return func(o *options) { o.noEvents = true } }

// NoImageDetails makes verbose calls of ImageStatus fail: what an image's own
// configuration says stays unknown until a container is started.
func NoImageDetails() Option { return func(o *options) { o.terse = true } }

// PodRange gives the ranges that pod IPs come from, one IP of each for every
// pod; 127.88.0.0/16 by default, where a test may really listen.
func PodRange(cidrs ...string) Option {
	return func(o *options) {
		o.ranges = nil
		for _, c := range cidrs {
			o.ranges = append(o.ranges, netip.MustParsePrefix(c))
		}
	}
}
