package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is the maximum size of a message from a runtime.
const maxMessage = 16 << 20

// exitPoll is the interval for polling a container's state. Polling without a pause would take CPU
// time from the runtime and delay the exits.
const exitPoll = time.Millisecond

// bareMark is the label of the bare client's sandboxes. bareGroup is the annotation with their
// cgroup.
const (
	bareMark  = "podrun-bench"
	bareGroup = "podrun-bench/cgroup-parent"
)

// runtimeClient is a direct connection to the runtime, which bypasses podrun's client.
type runtimeClient struct {
	*grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
}

func dial(socket string) (*runtimeClient, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	return &runtimeClient{conn, runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}, nil
}

// recipe contains the requests that podrun sends for a pod.
type recipe struct {
	sandbox    *runtimeapi.PodSandboxConfig
	handler    string
	containers []*runtimeapi.ContainerConfig
	inits      int // the number of init containers, which are first in the list
}

// recipesOf extracts the recipes from the calls that a podrun process has made, in the order of
// the sandboxes.
func recipesOf(calls []call, inits int) ([]recipe, error) {
	var all []recipe
	byUID := map[string]int{}
	for _, c := range calls {
		switch c.Method {
		case "RunPodSandbox":
			var request runtimeapi.RunPodSandboxRequest
			if err := proto.Unmarshal(c.Request, &request); err != nil {
				return nil, err
			}
			byUID[request.Config.GetMetadata().GetUid()] = len(all)
			all = append(all, recipe{sandbox: request.Config, handler: request.RuntimeHandler, inits: inits})
		case "CreateContainer":
			var request runtimeapi.CreateContainerRequest
			if err := proto.Unmarshal(c.Request, &request); err != nil {
				return nil, err
			}
			i, ok := byUID[request.SandboxConfig.GetMetadata().GetUid()]
			if !ok {
				return nil, errors.New("podrun made a container in no sandbox")
			}
			all[i].containers = append(all[i].containers, request.Config)
		}
	}
	for _, r := range all {
		if len(r.containers) <= inits {
			return nil, fmt.Errorf("podrun created no such pod: %d containers", len(r.containers))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("podrun made no pod")
	}
	return all, nil
}

// barePod is a recipe for one run, with a separate UID and separate files.
type barePod struct {
	recipe
	id  string // ID of the sandbox, once it has been created
	dir string // directory of the pod's files and logs
}

// prepare creates the files that a pod requires on the host: its log directory, and the files that
// its containers mount.
func (r recipe) prepare(dir string) (*barePod, error) {
	uid := r.sandbox.GetMetadata().GetUid()
	fresh := newUID(len(uid))
	p := &barePod{recipe: recipe{handler: r.handler, inits: r.inits}, dir: filepath.Join(dir, fresh)}
	var err error
	if p.sandbox, err = renamed(r.sandbox, uid, fresh); err != nil {
		return nil, err
	}
	// podrun's annotation is dropped, because podrun would otherwise consider the sandbox its own.
	p.sandbox.Annotations = map[string]string{bareGroup: p.sandbox.GetLinux().GetCgroupParent()}
	p.sandbox.LogDirectory = filepath.Join(p.dir, "logs")
	p.sandbox.Labels[bareMark] = "bare"
	for _, c := range r.containers {
		config, err := renamed(c, uid, fresh)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Join(p.sandbox.LogDirectory, filepath.Dir(config.LogPath)), 0o755); err != nil {
			return nil, err
		}
		for i, m := range config.Mounts {
			m.HostPath = filepath.Join(p.dir, fmt.Sprintf("%s-%d", config.Metadata.Name, i))
			if err := os.WriteFile(m.HostPath, nil, 0o666); err != nil {
				return nil, err
			}
		}
		p.containers = append(p.containers, config)
	}
	return p, nil
}

// renamed returns a copy of a message in which it has replaced every occurrence of the old UID, in
// names, labels, paths and the cgroup parent, with a new one of the same length.
func renamed[M proto.Message](m M, old, fresh string) (M, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return m, err
	}
	out := m.ProtoReflect().New().Interface().(M)
	return out, proto.Unmarshal(bytes.ReplaceAll(data, []byte(old), []byte(fresh)), out)
}

// newUID returns a UID of the given length. It contains no dashes, because it is part of a cgroup's
// name with both cgroup drivers.
func newUID(length int) string {
	raw := make([]byte, length/2+1)
	rand.Read(raw) // never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(raw)[:length]
}

// start starts the pod with the minimum number of calls. It checks for an interruption only
// between containers, because a runtime cannot remove a container that it is starting.
func (p *barePod) start(interrupted context.Context, c *runtimeClient) error {
	ctx := context.WithoutCancel(interrupted)
	made, err := c.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.sandbox, RuntimeHandler: p.handler})
	if err != nil {
		return fmt.Errorf("bare client: RunPodSandbox: %w", err)
	}
	p.id = made.PodSandboxId
	if _, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("bare client: PodSandboxStatus: %w", err)
	}
	seen := map[string]bool{}
	for i, config := range p.containers {
		if image := config.Image.GetUserSpecifiedImage(); !seen[image] {
			seen[image] = true
			if _, err := c.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}}); err != nil {
				return fmt.Errorf("bare client: ImageStatus: %w", err)
			}
		}
		if err := p.startOne(ctx, c, config, i < p.inits); err != nil {
			return fmt.Errorf("bare client: container %s: %w", config.Metadata.Name, err)
		}
		if err := interrupted.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (p *barePod) startOne(ctx context.Context, c *runtimeClient, config *runtimeapi.ContainerConfig, wait bool) error {
	made, err := c.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.sandbox})
	if err != nil {
		return err
	}
	if _, err := c.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil || !wait {
		return err
	}
	_, err = untilExit(ctx, c.status, made.ContainerId)
	return err
}

func (c *runtimeClient) status(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	resp, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return resp.GetStatus(), err
}

// untilExit polls until the container has exited, with any exit code.
func untilExit(ctx context.Context, status func(context.Context, string) (*runtimeapi.ContainerStatus, error), id string) (exit, error) {
	for {
		st, err := status(ctx, id)
		if err != nil {
			return exit{}, err
		}
		if st.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			return exit{Reported: time.Now(), Finished: time.Unix(0, st.FinishedAt)}, nil
		}
		select {
		case <-ctx.Done():
			return exit{}, ctx.Err()
		case <-time.After(exitPoll):
		}
	}
}

// remove removes the pod and its files, even if the pod was not started.
func (p *barePod) remove(ctx context.Context, c *runtimeClient) error {
	var err error
	if p.id != "" {
		err = removeSandbox(ctx, c, p.id)
	}
	return errors.Join(err, removeGroup(p.sandbox.GetLinux().GetCgroupParent()), os.RemoveAll(p.dir))
}

func removeSandbox(ctx context.Context, c *runtimeClient, id string) error {
	if _, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("bare client: StopPodSandbox: %w", err)
	}
	if _, err := c.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("bare client: RemovePodSandbox: %w", err)
	}
	return nil
}

// removeStray removes the sandboxes that an interrupted bare client left behind.
func removeStray(ctx context.Context, c *runtimeClient) error {
	left, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{bareMark: "bare"}},
	})
	if err != nil {
		return fmt.Errorf("list leftover sandboxes: %w", err)
	}
	var errs []error
	for _, s := range left.Items {
		errs = append(errs, removeSandbox(ctx, c, s.Id), removeGroup(s.Annotations[bareGroup]))
	}
	return errors.Join(errs...)
}

// removeGroup removes the cgroup that the runtime created for a pod but does not remove, in every
// hierarchy of cgroup v1 or the only one of v2. With the systemd driver, systemd removes the slice.
func removeGroup(parent string) error {
	if !strings.HasPrefix(parent, "/") {
		return nil
	}
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup" + parent, "/sys/fs/cgroup/*" + parent} {
		found, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, dir := range found {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
