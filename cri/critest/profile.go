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

// Profile describes how one container runtime differs from another. The fake runtime behaves as its
// profile describes, and the suite checks that the real runtime does too.
type Profile struct {
	Name, Version string // as in VersionResponse

	// CreateRuns means that CreateContainer prepares the process. If the program is missing,
	// CreateContainer fails and leaves no container behind. If CreateRuns is false, StartContainer
	// fails, and the state of the container is then exited, with reason StartError.
	CreateRuns bool
	// Repeats means that if the name is already in use, RunPodSandbox and CreateContainer return
	// the ID of the existing object. If it is false, they fail because the name is reserved.
	Repeats bool
	// WaitsForTERM means that StopPodSandbox, and the removal of a running container, send TERM and
	// wait as long as the call's deadline permits. If it is false, they kill the containers
	// immediately.
	WaitsForTERM bool
	// StopsCreated means that StopContainer changes the state of a container that was created and
	// never started to exited.
	StopsCreated bool
	// HoldsImages means that an image cannot be removed while a container uses it.
	HoldsImages bool
	// ExecExpires means that ExecSync returns exit code -1 after its timeout. If it is false,
	// ExecSync fails with DeadlineExceeded.
	ExecExpires bool
	// ExecPrints means that if a command cannot be started, the runtime reports exit code 255 and
	// writes the OCI runtime's message to stderr. If it is false, the runtime uses an error of the
	// streaming protocol.
	ExecPrints bool
	// LogPart is the maximum length, in bytes, of the text in one log entry. A longer line has
	// several entries.
	LogPart int
	// CarriageReturns means that a terminal's lines end with \r\n in the log. Otherwise the log lacks
	// each \r that precedes \n.
	CarriageReturns bool
	// PartReads means that an entry of a longer line also ends at the position at which a read of the output ended,
	// so that its text may be shorter than LogPart. The fake runtime never ends an entry for this reason.
	PartReads bool
	// LosesOutput means that the last output of a command with a terminal may be lost, because the
	// runtime does not wait until it has been read. The fake runtime never loses output.
	LosesOutput bool
	// SetsTERM means that the runtime sets the variable TERM even for processes without a
	// terminal.
	SetsTERM bool
	// KeepsIPs means that the status of a stopped sandbox still has its addresses.
	KeepsIPs bool
	// NeedsLogDir means that CreateContainer fails if the directory of the log is missing. If it is
	// false, the runtime creates the directory.
	NeedsLogDir bool
	// NeedsName means that CreateContainer fails if the image's name is missing
	// (ImageSpec.user_specified_image), because the runtime verifies the image's signature with
	// it.
	NeedsName bool
	// ForwardsLate means that PortForward does not check whether the sandbox exists, so that only
	// the connection reports an error.
	ForwardsLate bool
	// PlainIDs means that the IDs of images have no sha256: prefix.
	PlainIDs bool
	// Tasks means that containerd's own services are available on the socket.
	Tasks bool
	// NoEvents means that a stream of events ends immediately.
	NoEvents bool
}

// Containerd returns the profile of containerd 1.6. Options of New adapt it to later versions.
func Containerd() Profile {
	return Profile{Name: "containerd", Version: "v1.6.20-fake", LogPart: 16 << 10, Tasks: true}
}

// CRIO returns the profile of CRI-O 1.31 to 1.36 with its default settings.
func CRIO() Profile {
	return Profile{
		Name: "cri-o", Version: "1.36.3-fake", CreateRuns: true, Repeats: true, WaitsForTERM: true, StopsCreated: true, HoldsImages: true,
		ExecExpires: true, ExecPrints: true, LogPart: 8 << 10, PartReads: true, LosesOutput: true, CarriageReturns: true, SetsTERM: true,
		KeepsIPs: true, NeedsLogDir: true, NeedsName: true, ForwardsLate: true, PlainIDs: true, NoEvents: true,
	}
}

// As makes the runtime conform to a profile.
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

// crio reports whether errors have CRI-O's text.
func (p Profile) crio() bool { return p.Name == "cri-o" }

// info returns the verbose part of Status.
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

// noContainer returns the error of a call for a container that does not exist. The argument doing
// is the prefix of containerd's message.
func (p Profile) noContainer(id, doing string) error {
	if p.crio() {
		return status.Errorf(codes.NotFound, "could not find container %q: container with ID starting with %s not found: ID does not exist", id, id)
	}
	return status.Errorf(codes.NotFound, "%sfailed to find container %q in store: not found", doing, id)
}

// noContainerStreams returns the error of Exec and Attach for a container that does not exist.
func (p Profile) noContainerStreams(id string) error {
	err := p.noContainer(id, "")
	if p.crio() {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return err
}

// noSandbox returns the error of a call that creates a container in a sandbox that does not
// exist.
func (p Profile) noSandbox(id string) error {
	if p.crio() {
		return status.Errorf(codes.Unknown, "specified sandbox not found: %s: PodSandbox with ID starting with %s not found: ID does not exist", id, id)
	}
	return status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", id)
}

// uncreatable returns the error for a container whose request is incomplete, or whose log
// directory is missing.
func (p Profile) uncreatable(c *container) error {
	if p.NeedsName && c.config.GetImage().GetUserSpecifiedImage() == "" {
		return status.Error(codes.Unknown, "user specified image not specified, cannot verify image signature")
	}
	if path := c.logPath(); p.NeedsLogDir && path != "" {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			// The reason is only in the container log, to which conmon writes.
			return status.Error(codes.Unknown, "exit status 1")
		}
	}
	return nil
}

// notRunning returns the error for a command in a container that is not running.
func (p Profile) notRunning(c *container, doing string) error {
	if p.crio() {
		return status.Errorf(codes.NotFound, "container is not created or running: checking if PID of %s is running failed: container process not found", c.id)
	}
	return status.Errorf(codes.Unknown, "%scontainer is in %s state", doing, c.state)
}

// stopGrace returns the time that a container has to exit if a call with this deadline removes it
// or stops its sandbox. CRI-O computes the time in the same way (server/utils.go,
// stopTimeoutFromContext). A second of it is for the sandbox's own container.
func (p Profile) stopGrace(deadline time.Time, limited bool) time.Duration {
	switch {
	case !p.WaitsForTERM:
		return 0
	case !limited:
		return 10 * time.Second
	}
	return max(time.Until(deadline)-time.Second, 0)
}

// printed returns the log line that runc prints for a program that it could not run.
func printed(doing, why string) string {
	return fmt.Sprintf("time=%q level=error msg=%q\n", time.Now().Format(time.RFC3339), doing+": "+why)
}
