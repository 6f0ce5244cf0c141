package cri

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// talker is a runtime whose commands print as much as their first argument says.
type talker struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	responses map[string]*runtimeapi.ExecSyncResponse
}

func (s talker) ExecSync(_ context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if resp := s.responses[r.GetCmd()[0]]; resp != nil {
		return resp, nil
	}
	return nil, status.Error(codes.NotFound, "no such command")
}

// dialTalker returns a client of a talker.
func dialTalker(t *testing.T, responses map[string]*runtimeapi.ExecSyncResponse) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, talker{responses: responses})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	c, err := Dial("unix://"+path, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestExecOutput(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 7<<20)
	c := dialTalker(t, map[string]*runtimeapi.ExecSyncResponse{
		"large": {Stdout: large, Stderr: large, ExitCode: 3}, "small": {Stdout: []byte("out"), Stderr: []byte("err")}, "silent": {ExitCode: -1}})
	for _, tt := range []struct {
		command        string
		stdout, stderr int
		code           int32
	}{{"large", maxOutput, maxOutput, 3}, {"small", 3, 3, 0}, {"silent", 0, 0, -1}} {
		stdout, stderr, code, err := c.ExecOutput(t.Context(), "id", []string{tt.command}, time.Minute)
		if len(stdout) != tt.stdout || len(stderr) != tt.stderr || cap(stdout) > maxOutput || code != tt.code || err != nil {
			t.Errorf("%s: %d and %d bytes, code %d, %v", tt.command, len(stdout), len(stderr), code, err)
		}
	}
	if _, _, _, err := c.ExecOutput(t.Context(), "id", []string{"none"}, 0); status.Code(err) != codes.NotFound {
		t.Errorf("%v, want the runtime's error", err)
	}
	if resp, err := c.ExecSync(t.Context(), "id", []string{"large"}, 0); err != nil || len(resp.GetStdout()) != len(large) || resp.GetExitCode() != 3 {
		t.Errorf("ExecSync returns %d bytes, %v", len(resp.GetStdout()), err)
	}
}

// TestResponsesAreReceivedInTurn checks that the number of responses that podrun receives at a time does not depend
// on the number of probes: 20 containers with probes of 16 MiB made podrun use 500 MB.
func TestResponsesAreReceivedInTurn(t *testing.T) {
	c := dialTalker(t, map[string]*runtimeapi.ExecSyncResponse{"print": {Stdout: bytes.Repeat([]byte("x"), 8<<20)}})
	for range cap(receiving) {
		receiving <- struct{}{}
	}
	const probes = 20
	done := make(chan error, probes)
	for range probes {
		go func() {
			_, _, _, err := c.ExecOutput(t.Context(), "id", []string{"print"}, time.Minute)
			done <- err
		}()
	}
	// A call that ends while its response waits does not wait for its turn.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, _, err := c.ExecOutput(ctx, "id", []string{"print"}, 0); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v, want that the deadline has passed", err)
	}
	// Other calls do not wait.
	if _, err := c.Runtime.Version(t.Context(), &runtimeapi.VersionRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("another call: %v", err)
	}
	if len(done) > 0 {
		t.Errorf("%d responses were received out of turn", len(done))
	}
	for range cap(receiving) {
		<-receiving
	}
	for range probes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(receiving) != 0 {
		t.Errorf("%d turns were not returned", len(receiving))
	}
}

// TestDecodingTakesLittleMemory checks that the decoder does not copy the part of an output that is not returned.
func TestDecodingTakesLittleMemory(t *testing.T) {
	data, err := proto.Marshal(&runtimeapi.ExecSyncResponse{Stdout: bytes.Repeat([]byte("o"), 8<<20), Stderr: bytes.Repeat([]byte("e"), 8<<20), ExitCode: 7})
	if err != nil {
		t.Fatal(err)
	}
	codec := execCodec{encoding.GetCodecV2("proto")}
	var resp runtimeapi.ExecSyncResponse
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &resp)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > 256<<10 {
		t.Errorf("%d bytes of memory, %v", used, err)
	}
	if string(resp.Stdout) != strings.Repeat("o", maxOutput) || string(resp.Stderr) != strings.Repeat("e", maxOutput) || resp.ExitCode != 7 {
		t.Errorf("%d and %d bytes, code %d", len(resp.Stdout), len(resp.Stderr), resp.ExitCode)
	}
}

// FuzzDecodeExecSync compares the decoder with that of protobuf.
func FuzzDecodeExecSync(f *testing.F) {
	for _, r := range []*runtimeapi.ExecSyncResponse{{}, {Stdout: []byte("a"), Stderr: []byte("b"), ExitCode: -1}, {ExitCode: 300}} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, 0x25, 1, 2, 3, 4, 0x29, 1, 2, 3, 4, 5, 6, 7, 8, 0x32, 2, 'x', 'y'))
	}
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want runtimeapi.ExecSyncResponse
		err := execCodec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Clone(data))}, &got)
		if proto.Unmarshal(data, &want) != nil {
			return // the runtime is trusted: the decoder may accept more
		}
		if err != nil {
			// Groups are the only wire type that the decoder does not know; the CRI has none.
			if !strings.Contains(err.Error(), "wire type 3") {
				t.Errorf("%x: %v", data, err)
			}
			return
		}
		if string(got.Stdout) != string(want.Stdout[:min(len(want.Stdout), maxOutput)]) || string(got.Stderr) != string(want.Stderr[:min(len(want.Stderr), maxOutput)]) || got.ExitCode != want.ExitCode {
			t.Errorf("%x: %v, want %v", data, &got, &want)
		}
	})
}
