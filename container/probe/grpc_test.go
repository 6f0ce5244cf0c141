package probe

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// health responds according to the requested service.
type health struct {
	healthpb.UnimplementedHealthServer
	agent string
}

func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	h.agent = md.Get("user-agent")[0]
	switch r.Service {
	case "":
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	case "down":
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	case "huge":
		return nil, status.Error(codes.Unavailable, strings.Repeat("ü", 1<<20))
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, status.Error(codes.NotFound, "unknown service")
}

// serveGRPC starts a server and returns its port. If health is not nil, the server provides this
// service.
func serveGRPC(t *testing.T, h *health) int {
	t.Helper()
	l, server := listen(t), grpc.NewServer()
	if h != nil {
		healthpb.RegisterHealthServer(server, h)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return portOf(l)
}

func TestGRPC(t *testing.T) {
	h := &health{}
	serving, other := serveGRPC(t, h), serveGRPC(t, nil)
	for _, test := range []struct {
		name string
		plan GRPC
		want Result
	}{
		{"serving", GRPC{Port: serving}, Result{Success, "service healthy"}},
		{"not serving", GRPC{Port: serving, Service: "down"}, Result{Failure, `service unhealthy (responded with "NOT_SERVING")`}},
		{"unknown", GRPC{Port: serving, Service: "x"}, Result{Failure, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"}},
		{"no health service", GRPC{Port: other}, Result{Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health"}},
	} {
		got, err := Run(t.Context(), Plan{GRPC: &test.plan, TimeoutSeconds: 10}, local)
		if err != nil || got != test.want {
			t.Errorf("%s: %v %v", test.name, got, err)
		}
	}
	if !strings.HasPrefix(h.agent, "kube-probe/1.36 grpc-go/") {
		t.Errorf("user agent %s", h.agent)
	}
}

func TestGRPCTimeouts(t *testing.T) {
	const short = 200 * time.Millisecond
	// enough is sufficient time to connect on a busy host.
	const enough = 2 * time.Second
	closed := closedPort(t)
	// This server accepts connections and sends nothing.
	silent := listen(t)
	for _, test := range []struct {
		name   string
		plan   GRPC
		within time.Duration
		want   string
	}{
		{"nobody listens", GRPC{Port: closed}, short, fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 200ms: context deadline exceeded`, closed)},
		{"not gRPC", GRPC{Port: portOf(silent)}, short, fmt.Sprintf(`timeout: failed to connect service "127.0.0.1:%d" within 200ms: context deadline exceeded`, portOf(silent))},
		{"no answer", GRPC{Port: serveGRPC(t, &health{}), Service: "hang"}, enough, "timeout: health rpc did not complete within 2s"},
	} {
		got, err := runGRPC(t.Context(), test.plan, "127.0.0.1", test.within)
		if err != nil || got != (Result{Failure, test.want}) {
			t.Errorf("%s: %v %v", test.name, got, err)
		}
	}
}

// TestStopEndsANetworkProbe checks that a probe with a long timeout does not delay Stop.
func TestStopEndsANetworkProbe(t *testing.T) {
	silent := listen(t)
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for name, plan := range map[string]Plan{
		"grpc": {GRPC: &GRPC{Port: portOf(silent)}}, "http": {HTTP: &HTTP{Scheme: "http", Port: portOf(silent)}},
	} {
		plan.TimeoutSeconds, plan.PeriodSeconds, plan.FailureThreshold, plan.Kind = 600, 600, 1, Liveness
		p := NewProber(Options{Report: func(_ string, _ Kind, _ bool, message string) { t.Errorf("%s: %s", name, message) }})
		p.Set([]Container{{ID: "c1", PodIP: "127.0.0.1", Plans: []Plan{plan}}})
		conn := <-accepted
		p.Stop()
		conn.Close()
	}
}
