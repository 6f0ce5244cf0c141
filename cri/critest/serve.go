package critest

import (
	"fmt"
	"net"
	"os"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Serve makes the runtime available to other processes until stop is called. On a unix socket, it
// serves both CRI services, and containerd's services for tasks, container records and names of images. The function
// stop breaks the active calls and removes the socket.
func (rt *Runtime) Serve(socketPath string) (stop func(), err error) {
	socket, err := net.Listen("unix", socketPath)
	if err != nil {
		return nil, fmt.Errorf("serve the fake runtime: %w", err)
	}
	l := &cuttable{Listener: socket, rt: rt}
	s := grpc.NewServer(grpc.UnaryInterceptor(rt.gate), grpc.StreamInterceptor(rt.gateStream), grpc.MaxRecvMsgSize(16<<20))
	runtimeapi.RegisterRuntimeServiceServer(s, rt)
	runtimeapi.RegisterImageServiceServer(s, rt)
	if rt.options.profile.Tasks {
		tasksapi.RegisterTasksServer(s, tasks{rt: rt})
		containersapi.RegisterContainersServer(s, recordService{rt: rt})
		imagesapi.RegisterImagesServer(s, imageService{rt: rt})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Serve returns an error only when the server is stopped.
		s.Serve(l)
	}()
	return func() {
		s.Stop()
		<-done
		os.Remove(socketPath)
	}, nil
}

// cuttable is a listener whose connections a fault can break.
type cuttable struct {
	net.Listener
	rt *Runtime
}

// Accept records the connection.
func (l *cuttable) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.rt.mu.Lock()
		l.rt.wires = append(l.rt.wires, conn)
		l.rt.mu.Unlock()
	}
	return conn, err
}

// cut breaks all connections. Closing a closed connection has no effect.
func (rt *Runtime) cut() {
	rt.mu.Lock()
	wires := rt.wires
	rt.wires = nil
	rt.mu.Unlock()
	for _, conn := range wires {
		conn.Close()
	}
}
