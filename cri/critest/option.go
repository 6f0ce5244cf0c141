package critest

import (
	"net/netip"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Option configures a Runtime.
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

// StateDir sets the directory in which the runtime claims to store the files that it mounts
// into containers: resolv.conf and hostname, in a subdirectory named after the sandbox's ID. By
// default, it reports no such files. It never writes these files.
func StateDir(dir string) Option { return func(o *options) { o.stateDir = dir } }

// UsesCPU sets the number of cores that each running container uses. The default is 0.
func UsesCPU(cores float64) Option { return func(o *options) { o.cores = cores } }

// AnyImage makes every image present, without a user, with one layer and no command.
func AnyImage() Option { return func(o *options) { o.anyImage = true } }

// Timeout sets the default timeout of Client's calls; the default timeout is 2 minutes.
func Timeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// Version sets the runtime's name and version. The default is "containerd" and "v1.6.20-fake".
func Version(name, version string) Option {
	return func(o *options) { o.runtimeName, o.version = name, version }
}

// CgroupDriver makes the runtime implement RuntimeConfig, as containerd 2 does. By default, the
// call returns Unimplemented.
func CgroupDriver(d runtimeapi.CgroupDriver) Option {
	return func(o *options) { o.driver = &d }
}

// Handler adds a runtime handler. The handlers "" and "runc" always exist. Status lists only
// handlers that this option has added. Without this option, it lists none, like containerd 1.6.
func Handler(name string, features *runtimeapi.RuntimeHandlerFeatures) Option {
	return func(o *options) {
		o.handlers = append(o.handlers, &runtimeapi.RuntimeHandler{Name: name, Features: features})
	}
}

// Features sets the features that Status reports; by default, it reports none.
func Features(f *runtimeapi.RuntimeFeatures) Option {
	return func(o *options) { o.features = f }
}

// NoEvents makes GetContainerEvents return Unimplemented, as in containerd 1.6.
func NoEvents() Option { return func(o *options) { o.noEvents = true } }

// NoImageDetails makes verbose calls of ImageStatus fail, so that the configuration of an image
// remains unknown until a container is started.
func NoImageDetails() Option { return func(o *options) { o.terse = true } }

// PodRange sets the ranges of pod IPs. Each pod gets one IP from each range. The default is
// 127.88.0.0/16, because a test can listen on its addresses.
func PodRange(cidrs ...string) Option {
	return func(o *options) {
		o.ranges = nil
		for _, c := range cidrs {
			o.ranges = append(o.ranges, netip.MustParsePrefix(c))
		}
	}
}
