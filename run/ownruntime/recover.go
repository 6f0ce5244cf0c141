package ownruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/run/store"
)

// isLost reports whether an error of embedded.ReadChoice means that the record is lost.
func isLost(err error) bool { return errors.Is(err, embedded.ErrLostChoice) }

// readChoice reads the record of the runtime that the pods use; it returns nil if there is no
// record. If the command specifies an endpoint, readChoice ignores an unusable record. If the
// command specifies none, readChoice recovers a lost record: the pods use the runtime that has
// their sandboxes.
func (r *Runtime) readChoice(ctx context.Context) (*embedded.Choice, error) {
	record, err := embedded.ReadChoice(ctx, r.layout)
	named := r.wanted() != embedded.Auto && r.wanted() != embedded.ByFlag
	switch {
	case named && isLost(err):
		return nil, nil
	case isLost(err):
		return r.recoverChoice(ctx, err)
	}
	return record, err
}

// recoverChoice determines which runtime the pods of the root directory use. It returns nil if
// there are no pods. The argument lost is the error from reading the record.
func (r *Runtime) recoverChoice(ctx context.Context, lost error) (*embedded.Choice, error) {
	layout := r.settings.Layout()
	stored, err := store.StoredPods(layout)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	var having, answering []embedded.Choice
	// true if a runtime that may have the pods' sandboxes does not respond
	unknown := false
	for _, endpoint := range r.endpointsOf(stored) {
		c := embedded.Choice{Kind: embedded.External, Endpoint: endpoint}
		if endpoint == r.layout.Endpoint() {
			c = r.ownChoice(ctx)
		}
		switch embedded.ReadSocket(ctx, endpoint, embedded.AnswerWithin) {
		case embedded.Answers:
		case embedded.Silent:
			unknown = true
			continue
		default:
			continue
		}
		has, err := hasSandboxes(ctx, endpoint, stored)
		if err != nil {
			unknown = true
			continue
		}
		answering = append(answering, c)
		if has {
			having = append(having, c)
		}
	}
	unpacked, err := embedded.UnpackedDigests(r.layout)
	if err != nil {
		return nil, err
	}
	switch {
	case len(having) == 1:
		return &having[0], nil
	case len(having) == 0 && len(answering) == 1 && len(unpacked) == 0 && !unknown: // all pods are stopped
		return &answering[0], nil
	case r.wanted() == embedded.ByFlag: // the user specified the runtime explicitly
		own := r.ownChoice(ctx)
		return &own, nil
	}
	return nil, undecided(lost, answering, len(unpacked) > 0)
}

// ownChoice returns the record of the embedded runtime if that runtime runs or can be started.
func (r *Runtime) ownChoice(ctx context.Context) embedded.Choice {
	c := embedded.Choice{Kind: embedded.Own}
	if last := embedded.ReadDaemon(ctx, r.layout); last != nil {
		c.Digest = last.Digest
	} else if unpacked, err := embedded.UnpackedDigests(r.layout); err == nil && len(unpacked) == 1 {
		c.Digest = unpacked[0]
	}
	return c
}

// endpointsOf lists the endpoints of runtimes that may have the pods: the usual endpoints, the
// endpoints in the pods' owner records, and the endpoint of the embedded runtime.
func (r *Runtime) endpointsOf(pods []identity.Pod) []string {
	out := append(cri.DefaultEndpoints(), r.layout.Endpoint())
	for _, id := range pods {
		owner, err := store.ReadOwner(r.settings.Layout(), id)
		if err != nil || owner == nil || owner.Origin == nil {
			continue // the record contains no settings
		}
		var s nodeconfig.Settings
		if json.Unmarshal(owner.Origin.Settings, &s) != nil {
			continue
		}
		for _, endpoint := range []string{s.ContainerRuntimeEndpoint, s.Runtime} {
			if strings.HasPrefix(endpoint, "unix:") && !slices.Contains(out, endpoint) {
				out = append(out, endpoint)
			}
		}
	}
	return out
}

// hasSandboxes reports whether a runtime has a sandbox of one of the pods.
func hasSandboxes(ctx context.Context, endpoint string, pods []identity.Pod) (bool, error) {
	client, err := cri.Dial(endpoint, "", embedded.AnswerWithin)
	if err != nil {
		return false, err
	}
	defer client.Close()
	sandboxes, err := client.ListPodSandbox(ctx, nil)
	if err != nil {
		return false, err
	}
	for _, sb := range sandboxes {
		ours := func(id identity.Pod) bool { return id.UID == sb.GetLabels()[identity.LabelPodUID] }
		if sb.GetAnnotations()[identity.AnnotationManagedBy] == identity.ManagedBy && slices.ContainsFunc(pods, ours) {
			return true, nil
		}
	}
	return false, nil
}

// undecided returns the error for a lost record that podrun cannot recover. Its hint names the
// command that writes the record again.
func undecided(lost error, answering []embedded.Choice, unpacked bool) error {
	var values []string
	for _, c := range answering {
		if c.Kind == embedded.External {
			values = append(values, c.Endpoint)
		}
	}
	if unpacked {
		values = append(values, embedded.ByFlag)
	}
	if len(values) == 0 {
		values = []string{"SOCKET"}
	}
	err := lost
	if e, ok := errors.AsType[*problem.Error](lost); ok {
		err = e.Err
	}
	return &problem.Error{Kind: problem.Runtime, Op: "read the record of the container runtime",
		Err:  fmt.Errorf("%w; podrun found the pods of this root directory in none of the available runtimes", err),
		Hint: "run 'podrun runtime up --runtime=RUNTIME' with the runtime of the pods (" + strings.Join(values, ", ") + ") to record it again"}
}

// recordRecovered writes a recovered choice, for the next command.
func (r *Runtime) recordRecovered(ctx context.Context, c embedded.Choice) error {
	if _, err := embedded.ReadChoice(ctx, r.layout); !isLost(err) || os.Geteuid() != 0 {
		return nil
	}
	lock, err := r.lock(ctx)
	if err == nil {
		defer lock.Unlock()
		err = embedded.WriteChoice(r.layout, c)
	}
	switch {
	case err == nil:
		r.Note("the record of the container runtime was unreadable; podrun determined the runtime and wrote the record again: " + r.layout.Choice())
	case statefile.IsNewer(err) || store.CannotWrite(err) || errors.Is(err, fs.ErrPermission):
	default: // the next command recovers the record again
		r.Warn(problem.List{problem.WarningOf(err)})
	}
	return nil
}

// writeChoice records a choice. It keeps the record of a newer podrun.
func (r *Runtime) writeChoice(c embedded.Choice) error {
	if err := embedded.WriteChoice(r.layout, c); !statefile.IsNewer(err) {
		return err
	}
	return nil
}
