// Node performs the CRI calls of hack/runtime:
//
//	node wait                until the runtime and its network are ready
//	node pull REF...         pull images
//	node pods                list the sandboxes
//	node remove              stop and remove every sandbox
//
// CONTAINER_RUNTIME_ENDPOINT names the runtime. It does not use podrun's client, because the
// cleanup after a test must not have the same bugs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// patience limits the time of a command.
const patience = 5 * time.Minute

// node is one runtime.
type node struct {
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: node wait | pull REF... | pods | remove")
	}
	socket := strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://")
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", socket, err)
	}
	defer conn.Close()
	n := node{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}
	switch args[0] {
	case "wait":
		return n.wait(ctx)
	case "pull":
		return n.pull(ctx, args[1:])
	case "pods":
		return n.pods(ctx)
	case "remove":
		return n.remove(ctx)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// wait returns when every condition of the runtime is true. If the time limit expires before
// that, the error contains the last reason.
func (n node) wait(ctx context.Context) error {
	last := errors.New("no answer yet")
	for {
		last = n.ready(ctx, last)
		// If the runtime reports Unimplemented, it will never offer the service.
		if last == nil || status.Code(last) == codes.Unimplemented {
			return last
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the runtime is not ready: %w", last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready returns nil if the runtime is ready, and the reason otherwise. If the call times out, it
// returns last, the previous reason.
func (n node) ready(ctx context.Context, last error) error {
	answer, err := n.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if ctx.Err() != nil {
		return last
	}
	if err != nil {
		return err
	}
	for _, c := range answer.GetStatus().GetConditions() {
		// containerd has further conditions, such as one about deprecation warnings. They are not
		// relevant for readiness.
		if !c.Status && (c.Type == "RuntimeReady" || c.Type == "NetworkReady") {
			return fmt.Errorf("%s is false: %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return nil
}

func (n node) pull(ctx context.Context, refs []string) error {
	pulls, ctx := errgroup.WithContext(ctx)
	for _, ref := range refs {
		pulls.Go(func() error {
			_, err := n.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
			if err != nil {
				return fmt.Errorf("pull %s: %w", ref, err)
			}
			return nil
		})
	}
	return pulls.Wait()
}

func (n node) pods(ctx context.Context) error {
	list, err := n.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list the sandboxes: %w", err)
	}
	for _, s := range list.Items {
		fmt.Printf("%.13s %s/%s %s\n", s.Id, s.Metadata.Namespace, s.Metadata.Name, s.State)
	}
	return nil
}

// remove stops and removes every sandbox, regardless of its owner, a few at a time.
func (n node) remove(ctx context.Context) error {
	list, err := n.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list the sandboxes: %w", err)
	}
	var removals errgroup.Group
	removals.SetLimit(4)
	for _, s := range list.Items {
		removals.Go(func() error {
			if _, err := n.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil {
				return fmt.Errorf("stop sandbox %s: %w", s.Id, err)
			}
			if _, err := n.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
				return fmt.Errorf("remove sandbox %s: %w", s.Id, err)
			}
			return nil
		})
	}
	return removals.Wait()
}
