package critest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Profile is what one container runtime does differently from another. The fake behaves
// as its profile says, and the suite expects of a runtime what its profile says.
type Profile struct {
	Name, Version string // as in VersionResponse

	// CreateRuns says that CreateContainer prepares the process: a program that is
	// missing fails it and leaves no container. Else it fails StartContainer, and the
	// container has ended with reason StartError.
	CreateRuns bool
	// Repeats says that RunPodSandbox and CreateContainer with a name that exists return
	// its ID; else the name is reserved.
	Repeats bool
	// WaitsForTERM says that StopPodSandbox, and the removal of a running container, send
	// TERM and wait for as long as the call's deadline allows; else they kill.
	WaitsForTERM bool
	// StopsCreated says that StopContainer ends a container that was not started.
	StopsCreated bool
	// HoldsImages says that an image of a container cannot be removed.
	HoldsImages bool
	// ExecExpires says that ExecSync answers exit code -1 when its timeout is over; else
	// it fails with DeadlineExceeded.
	ExecExpires bool
	// ExecPrints says that a command that cannot be started is reported by exit code 255
	// and the text of the OCI runtime on stderr; else by the streaming protocol's error.
	ExecPrints bool
	// LogPart is the longest part of a line that is logged in one entry, in bytes.
	LogPart int
	// CarriageReturns says that lines of a terminal end with \r\n in the log.
	CarriageReturns bool
	// PartReads says that a part of a longer line also ends where a read of the output
	// ended, so that parts may be shorter than LogPart. The fake's are not.
	PartReads bool
	// LosesOutput says that the last output of a command with a terminal may be lost: the
	// runtime does not wait until it was read. The fake does not lose any.
	LosesOutput bool
	// SetsTERM says that processes without a terminal have the variable TERM, too.
	SetsTERM bool
	// KeepsIPs says that the status of a stopped sandbox still has its addresses.
	KeepsIPs bool
	// NeedsLogDir says that CreateContainer fails if the directory of the log is missing;
	// else the runtime creates it.
	NeedsLogDir bool
	// NeedsName says that CreateContainer fails without the image's name
	// (ImageSpec.user_specified_image), by which its signature is verified.
	NeedsName bool
	// ForwardsLate says that PortForward does not look for the sandbox: the error comes by
	// the connection.
	ForwardsLate bool
	// PlainIDs says that IDs of images have no sha256: before them.
	PlainIDs bool
	// Tasks says that containerd's own services are on the socket.
	Tasks bool
	// NoEvents says that the stream of events ends at once.
	NoEvents bool
}

// Containerd is containerd 1.6's profile; later ones differ in what the options of New say.
func Containerd() Profile {
	return Profile{Name: "containerd", Version: "v1.6.20-fake", LogPart: 16 << 10, Tasks: true}
}

// CRIO is that of CRI-O 1.31 to 1.36 with its default settings.
func CRIO() Profile {
	return Profile{
		Name: "cri-o", Version: "1.36.3-fake", CreateRuns: true, Repeats: true, WaitsForTERM: true, StopsCreated: true, HoldsImages: true,
		ExecExpires: true, ExecPrints: true, LogPart: 8 << 10, PartReads: true, LosesOutput: true, CarriageReturns: true, SetsTERM: true,
		KeepsIPs: true, NeedsLogDir: true, NeedsName: true, ForwardsLate: true, PlainIDs: true, NoEvents: true,
	}
}

// As makes the runtime behave as a profile says.
func As(p Profile) Option {
	if p.LogPart <= 0 {
		panic("critest: As: the profile has no LogPart: start from Containerd or CRIO")
	}
	return func(o *options) {
		o.profile, o.runtimeName, o.version = p, p.Name, p.Version
		if p.crio() {
			CgroupDriver(runtimeapi.CgroupDriver_CGROUPFS)(o)
			Features(&runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true})(o)
			Handler("", &runtimeapi.RuntimeHandlerFeatures{})(o)
			Handler("runc", &runtimeapi.RuntimeHandlerFeatures{})(o)
		}
	}
}

// crio reports whether errors have CRI-O's words.
func (p Profile) crio() bool { return p.Name == "cri-o" }

// info is the verbose part of Status.
func (p Profile) info() map[string]string {
	if p.crio() {
		return map[string]string{"config": `{"crio":{"DefaultRuntime":"runc"},"sandboxImage":"` + SandboxImage + `"}`}
	}
	return map[string]string{
		"config":            `{"SandboxImage":"` + SandboxImage + `","containerd":{"defaultRuntimeName":"runc","snapshotter":"overlayfs"}}`,
		"golang":            `"go"`,
		"lastCNILoadStatus": `"OK"`,
	}
}

// noContainer is the error for a container that does not exist, in a call; doing is
// what containerd says before its own.
func (p Profile) noContainer(id, doing string) error {
	if p.crio() {
		return status.Errorf(codes.NotFound, "could not find container %q: container with ID starting with %s not found: ID does not exist", id, id)
	}
	return status.Errorf(codes.NotFound, "%sfailed to find container %q in store: not found", doing, id)
}

// noContainerStreams is that error in Exec and Attach.
func (p Profile) noContainerStreams(id string) error {
	err := p.noContainer(id, "")
	if p.crio() {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return err
}

// noSandbox is the error for a container in a sandbox that does not exist.
func (p Profile) noSandbox(id string) error {
	if p.crio() {
		return status.Errorf(codes.Unknown, "specified sandbox not found: %s: PodSandbox with ID starting with %s not found: ID does not exist", id, id)
	}
	return status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", id)
}

// uncreatable is the error for a container whose request or log directory is incomplete.
func (p Profile) uncreatable(c *container) error {
	if p.NeedsName && c.config.GetImage().GetUserSpecifiedImage() == "" {
		return status.Error(codes.Unknown, "user specified image not specified, cannot verify image signature")
	}
	if path := c.logPath(); p.NeedsLogDir && path != "" {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return status.Error(codes.Unknown, "exit status 1") // conmon says why in CRI-O's log
		}
	}
	return nil
}

// notRunning is the error for a command in a container that does not run.
func (p Profile) notRunning(c *container, doing string) error {
	if p.crio() {
		return status.Errorf(codes.NotFound, "container is not created or running: checking if PID of %s is running failed: container process not found", c.id)
	}
	return status.Errorf(codes.Unknown, "%scontainer is in %s state", doing, c.state)
}

// stopGrace is how long a container gets to end when its sandbox is stopped or it is
// removed, of a call that ends at deadline: CRI-O's server/utils.go,
// stopTimeoutFromContext, less a second for the sandbox's own container.
func (p Profile) stopGrace(deadline time.Time, limited bool) time.Duration {
	switch {
	case !p.WaitsForTERM:
		return 0
	case !limited:
		return 10 * time.Second
	}
	return max(time.Until(deadline)-time.Second, 0)
}

// printed is how runc writes why it could not run a program.
func printed(doing, why string) string {
	return fmt.Sprintf("time=%q level=error msg=%q\n", time.Now().Format(time.RFC3339), doing+": "+why)
}
