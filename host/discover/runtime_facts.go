package discover

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
)

// answerWithin limits the first call if the command has no time limit. A program that does not
// respond within this time hangs, or is not a container runtime.
const answerWithin = 5 * time.Second

// Reach requests the runtime's version. It is for commands that need no other facts. If the runtime
// does not answer, it returns the error of Unreachable. If the command has a time limit, Reach
// waits until this limit, but at most for the timeout of a call. Therefore, a command does not fail
// only because the runtime is frozen or overloaded for some seconds.
func Reach(ctx context.Context, client *cri.Client) (*runtimeapi.VersionResponse, error) {
	limit := answerWithin
	if _, limited := ctx.Deadline(); limited {
		limit = client.RequestTimeout()
		defer time.AfterFunc(answerWithin, client.ReportUnresponsive).Stop()
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	version, err := client.Version(bounded)
	switch {
	case err == nil:
		return version, nil
	case ctx.Err() != nil:
		return nil, ctx.Err() // the caller canceled the call
	}
	return nil, Unreachable(client.Endpoint(), err, limit)
}

// runtimeFacts are the runtime's properties and its sandboxes.
type runtimeFacts struct {
	runtime   host.Runtime
	imageFS   host.Filesystem
	verbose   string // the runtime's configuration, as reported in its status
	sandboxes []*runtimeapi.PodSandbox
}

// answerError returns the error for a runtime that failed to answer a call.
func answerError(ctx context.Context, client *cri.Client, err error) error {
	if _, said := errors.AsType[*problem.Error](err); said || ctx.Err() != nil {
		return err
	}
	return Unreachable(client.Endpoint(), err, client.RequestTimeout())
}

// readRuntime queries the runtime concurrently. If list is set, it also lists the sandboxes. It
// returns only the first error.
func readRuntime(ctx context.Context, client *cri.Client, list bool) (runtimeFacts, error) {
	var out runtimeFacts
	if client == nil {
		return out, nil
	}
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	var version *runtimeapi.VersionResponse
	var status *runtimeapi.StatusResponse
	var config *runtimeapi.RuntimeConfigResponse
	var images *runtimeapi.ImageFsInfoResponse
	errs := runAll(
		func() (err error) {
			if version, err = Reach(ctx, client); err != nil {
				// The other calls may have longer timeouts, so cancel them.
				cancel()
			}
			return err
		},
		func() (err error) { status, err = client.Status(asked, true); return },
		func() (err error) { config, err = client.RuntimeConfig(asked); return },
		func() (err error) {
			if list {
				out.sandboxes, err = client.ListPodSandbox(asked, nil)
			}
			return err
		},
		func() error {
			// This call is optional: if it fails, only the file system of the images is unknown.
			if info, err := client.Images.FsInfo(asked); err == nil {
				images = info
			}
			return nil
		},
	)
	if len(errs) > 0 {
		return out, answerError(ctx, client, errs[0])
	}
	out.runtime = describe(version, status, config)
	out.runtime.Endpoint = client.Endpoint()
	out.verbose = status.GetInfo()["config"]
	out.imageFS = imageFS(images)
	return out, nil
}

// describe converts the runtime's responses to facts. c may be nil.
func describe(v *runtimeapi.VersionResponse, s *runtimeapi.StatusResponse, c *runtimeapi.RuntimeConfigResponse) host.Runtime {
	r := host.Runtime{
		Name:           v.GetRuntimeName(),
		Version:        v.GetRuntimeVersion(),
		APIVersion:     v.GetRuntimeApiVersion(),
		SandboxImg:     sandboxImage(s.GetInfo()["config"]),
		ReportedDriver: reportedDriver(c, s.GetInfo()["config"]),
	}
	more := parseContainerdConfig(s.GetInfo()["config"])
	r.RestrictsOOM, r.CNIConfDir, r.CNIBinDirs = more.RestrictOOM, more.CNI.ConfDir, more.CNI.bins()
	r.CDI, r.CDIDirs, r.NoProcMount = more.cdi(), more.CDISpecDirs, more.DisableProcMount
	for _, cond := range s.GetStatus().GetConditions() {
		r.Conditions = append(r.Conditions, host.RuntimeCondition{
			Type: cond.GetType(), Status: cond.GetStatus(), Reason: cond.GetReason(), Message: cond.GetMessage(),
		})
	}
	for _, h := range s.GetRuntimeHandlers() {
		if r.Handlers == nil {
			r.Handlers = map[string]host.RuntimeHandler{}
		}
		r.Handlers[h.GetName()] = host.RuntimeHandler{
			RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
			UserNamespaces:          h.GetFeatures().GetUserNamespaces(),
		}
	}
	r.HandlersOK = len(r.Handlers) > 0
	if f := s.GetFeatures(); f != nil {
		r.Features = map[string]bool{"supplementalGroupsPolicy": f.GetSupplementalGroupsPolicy()}
	}
	return r
}

// reportedDriver returns the cgroup driver in RuntimeConfig. containerd 1.x does not implement
// RuntimeConfig. For it, the result is the option of the default handler in the verbose status.
// It returns "" if neither has the driver, or if the handler does not use runc.
func reportedDriver(c *runtimeapi.RuntimeConfigResponse, config string) string {
	if c.GetLinux() == nil {
		return optionDriver(config)
	}
	if c.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
		return host.DriverSystemd
	}
	return host.DriverCgroupfs
}

// optionDriver returns the cgroup driver in containerd's configuration.
func optionDriver(config string) string {
	var c struct {
		Containerd struct {
			DefaultRuntimeName string `json:"defaultRuntimeName"`
			Runtimes           map[string]struct {
				Type    string `json:"runtimeType"`
				Options struct{ SystemdCgroup bool }
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if json.Unmarshal([]byte(config), &c) != nil {
		return ""
	}
	handler, ok := c.Containerd.Runtimes[c.Containerd.DefaultRuntimeName]
	switch {
	case !ok || handler.Type != "io.containerd.runc.v2":
		return ""
	case handler.Options.SystemdCgroup:
		return host.DriverSystemd
	}
	return host.DriverCgroupfs
}

// containerdConfig is the part of containerd's verbose status that concerns pods.
type containerdConfig struct {
	RestrictOOM *bool `json:"restrictOOMScoreAdj"`
	CNI         cniDirs
	EnableCDI   *bool
	CDISpecDirs []string

	DisableProcMount bool

	Containerd *struct{} // present in every containerd
}

// cdi reports whether containerd adds CDI devices to containers. Version 1.6 cannot; versions since
// 1.7 do if they are configured to; versions since 2.2 always do.
func (t containerdConfig) cdi() *bool {
	switch {
	case t.EnableCDI != nil || t.Containerd == nil:
		return t.EnableCDI
	}
	known := len(t.CDISpecDirs) > 0
	return &known
}

// cniDirs are the directories of the network plugins and of their configuration. Since
// containerd 2.2, there may be several directories of plugins.
type cniDirs struct {
	ConfDir, BinDir string
	BinDirs         []string
}

func (c cniDirs) bins() []string {
	if c.BinDir != "" && !slices.Contains(c.BinDirs, c.BinDir) {
		return append([]string{c.BinDir}, c.BinDirs...)
	}
	return c.BinDirs
}

// parseContainerdConfig parses containerd's configuration. It returns the zero value for any
// other runtime.
func parseContainerdConfig(config string) containerdConfig {
	var t containerdConfig
	if json.Unmarshal([]byte(config), &t) != nil {
		return containerdConfig{}
	}
	return t
}

// crioPause matches the pause image in CRI-O's configuration, which is TOML.
var crioPause = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*pause_image\s*=\s*"([^"]+)"`) })

// sandboxImage returns the pause image in the verbose status. containerd 1.x reports it as
// sandboxImage. containerd 2.x moved it to pinnedImages in the configuration of the image service.
// Depending on the version, the status has both or neither. The result is "" if the runtime does
// not report the image.
func sandboxImage(config string) string {
	var c struct {
		SandboxImage string            `json:"sandboxImage"`
		PinnedImages map[string]string `json:"pinnedImages"`
	}
	if json.Unmarshal([]byte(config), &c) == nil {
		if c.SandboxImage != "" {
			return c.SandboxImage
		}
		return c.PinnedImages["sandbox"]
	}
	if m := crioPause().FindStringSubmatch(config); m != nil {
		return m[1]
	}
	return ""
}
