package critest

import (
	"fmt"
	"net"
	"os"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Serve is the door for other processes: it serves both services, and containerd's of
// tasks, on a unix socket until stop, which breaks the calls under way and removes the
// socket.
func (rt *Runtime) Serve(socketPath string) (stop func(), err error) {
	l, err := net.Listen("unix", socketPath)
	if err != nil {
		return nil, fmt.Errorf("serve the fake runtime: %w", err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(rt.gate), grpc.MaxRecvMsgSize(16<<20))
	runtimeapi.RegisterRuntimeServiceServer(s, rt)
	runtimeapi.RegisterImageServiceServer(s, rt)
	tasksapi.RegisterTasksServer(s, tasks{rt: rt})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l) // ends with an error only when stopped
	}()
	return func() {
		s.Stop()
		<-done
		os.Remove(socketPath)
	}, nil
}
