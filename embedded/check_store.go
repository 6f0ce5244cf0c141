package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
)

// checkWithin limits checkStore.
const checkWithin = 30 * time.Second

// checkStore returns the damage of the store of a running containerd; nil if it finds none, or cannot check the
// store. containerd itself detects such damage late: it opens a snapshotter's database only for the first request,
// reads the record of a container only if the container is used, and notices a missing image layer only when it
// mounts a container. checkStore therefore reads all records of containers and snapshots, and checks the layers that
// containers use. It changes nothing.
func checkStore(ctx context.Context, l Layout, snapshotter string) *Damage {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io"), checkWithin)
	defer cancel()
	client, err := cri.Dial(l.Endpoint(), "", AnswerWithin)
	if err != nil {
		return nil
	}
	defer client.Close()
	snapshots := snapshotsapi.NewSnapshotsClient(client.Images.Conn())
	containers, err := containersapi.NewContainersClient(client.Images.Conn()).List(ctx, &containersapi.ListContainersRequest{})
	if err != nil {
		return classifyText(status.Convert(err).Message())
	}
	if damage := checkRecords(containers.GetContainers()); damage != nil {
		return damage
	}
	active, err := listActive(ctx, snapshots, snapshotter)
	if err != nil {
		return classifyText(status.Convert(err).Message())
	}
	known := map[string]bool{} // layers that exist
	for _, key := range active {
		m, err := snapshots.Mounts(ctx, &snapshotsapi.MountsRequest{Snapshotter: snapshotter, Key: key})
		if err != nil {
			if damage := classifyText(status.Convert(err).Message()); damage != nil {
				return damage
			}
			continue // a command has removed it
		}
		for _, dir := range layersOf(m.GetMounts(), l.snapshotter(snapshotter)) {
			if known[dir] {
				continue
			}
			if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				return &Damage{What: fmt.Sprintf("the image layer %s of a container is missing", dir)}
			}
			known[dir] = true
		}
	}
	return nil
}

// kindLabel is the label of the CRI plugin's containers.
const kindLabel = "io.cri-containerd.kind"

// checkRecords returns the damage of the records of containers: without a specification, which is JSON,
// containerd can neither show nor restart a container. It is pure.
func checkRecords(containers []*containersapi.Container) *Damage {
	for _, c := range containers {
		if c.GetLabels()[kindLabel] != "" && !json.Valid(c.GetSpec().GetValue()) {
			return &Damage{What: fmt.Sprintf("the record of container %.13s has no valid specification", c.GetID())}
		}
	}
	return nil
}

// listActive lists the keys of the snapshots of containers and sandboxes.
func listActive(ctx context.Context, client snapshotsapi.SnapshotsClient, snapshotter string) ([]string, error) {
	stream, err := client.List(ctx, &snapshotsapi.ListSnapshotsRequest{Snapshotter: snapshotter})
	if err != nil {
		return nil, err
	}
	var keys []string
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return keys, nil
		}
		if err != nil {
			return nil, err
		}
		for _, s := range part.GetInfo() {
			if s.GetKind() == snapshotsapi.Kind_ACTIVE {
				keys = append(keys, s.GetName())
			}
		}
	}
}

// layersOf returns the directories of the image layers in the mounts of a snapshot, if all of them
// are below the snapshotter's directory. It omits the writable layer of the container, because a
// container whose writable layer was lost is simply replaced. It is pure.
func layersOf(mounts []*types.Mount, below string) []string {
	var out []string
	for _, m := range mounts {
		for _, option := range m.GetOptions() {
			lower, ok := strings.CutPrefix(option, "lowerdir=")
			if !ok {
				continue
			}
			for dir := range strings.SplitSeq(lower, ":") {
				if !strings.HasPrefix(dir, below+"/") {
					return nil // the path contains a colon
				}
				out = append(out, dir)
			}
		}
	}
	return out
}
