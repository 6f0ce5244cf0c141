package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	kubeprobe "k8s.io/kubernetes/pkg/probe"

	"github.com/podrun/podrun/internal/podnetns"
)

// maxStatus limits a response of a health service, in bytes. gRPC's default, which the kubelet uses, is 4 MiB.
const maxStatus = 64 << 10

// runGRPC queries a health service (grpc.health.v1.Health). SERVING is a success; everything else
// is a failure. It does not use k8s.io/kubernetes/pkg/probe/grpc, because a probe of that package
// cannot be canceled, and the package sends the user agent kube-probe/1.36 only in binaries whose
// linker flags set the version.
func runGRPC(ctx context.Context, g GRPC, podIP string, timeout time.Duration) (Result, error) {
	address, err := addressOf("", podIP, g.Port)
	if err != nil {
		return Result{Outcome: Unknown}, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent(userAgent),
		// A status of the health service has some bytes. With fixed windows, gRPC does not enlarge them.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStatus)), grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithInitialWindowSize(maxStatus), grpc.WithInitialConnWindowSize(maxStatus),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return podnetns.DialContext(ctx, kubeprobe.ProbeDialer(), "tcp", address)
		}))
	if err != nil {
		return Result{Failure, fmt.Sprintf("error: failed to connect service at %q: %v", address, err)}, nil
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := connect(ctx, conn); err != nil {
		return Result{Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, err)}, nil
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: g.Service})
	return healthOf(answer, err, timeout), nil
}

// connect waits until the connection is established, or until ctx ends. Earlier attempts may be
// refused.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

func healthOf(answer *healthpb.HealthCheckResponse, err error, timeout time.Duration) Result {
	switch status.Code(err) {
	case codes.OK:
		if s := answer.GetStatus(); s != healthpb.HealthCheckResponse_SERVING {
			return Result{Failure, fmt.Sprintf("service unhealthy (responded with %q)", s.String())}
		}
		return Result{Success, "service healthy"}
	case codes.Unimplemented:
		return Result{Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + status.Convert(err).Message()}
	case codes.DeadlineExceeded:
		return Result{Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)}
	}
	return Result{Failure, fmt.Sprintf("error: health rpc probe failed: %v", err)}
}
