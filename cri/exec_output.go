package cri

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	// It registers the codec proto.
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutput is the number of bytes that ExecOutput returns of each output: twice what the kubelet keeps of the
// output of a probe or a hook.
const maxOutput = 20 << 10

// execWindow is the size, in bytes, of the flow control window of a call of ExecSync: the smallest one that
// gRPC supports. A response that waits for receiving occupies at most this memory.
const execWindow = 64 << 10

// receiving contains an element for each response of ExecSync that this process is receiving. A response may have
// maxMessage bytes, and containers choose the output of their probes: in an earlier version, 20 containers made
// podrun use 500 MB. The limit does not apply to the commands, which may run for any time.
var receiving = make(chan struct{}, 2)

// ExecOutput runs a command like ExecSync, for a probe or a hook. It returns only the first 20 KiB of each output,
// and does not keep the rest in memory.
func (c *Client) ExecOutput(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, code int32, err error) {
	resp, err := c.execSync(ctx, id, command, timeout, grpc.ForceCodecV2(execCodec{encoding.GetCodecV2("proto")}))
	cut := func(output []byte) []byte { return output[:min(len(output), maxOutput)] }
	return cut(resp.GetStdout()), cut(resp.GetStderr()), resp.GetExitCode(), err
}

// receiveInTurn is an interceptor that makes ExecSync receive its response only when fewer than cap(receiving)
// other calls receive theirs. A runtime sends the header of a response with its message, when the command has
// ended.
func receiveInTurn(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != runtimeapi.RuntimeService_ExecSync_FullMethodName {
		return call(ctx, method, req, reply, conn, opts...)
	}
	// This releases the stream if RecvMsg is not called.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, method, opts...)
	if err != nil {
		return err
	}
	// As in a unary call of gRPC, RecvMsg returns the error of the call if the server ended it early.
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := stream.Header(); err != nil {
		return status.Convert(err).Err()
	}
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case receiving <- struct{}{}:
	}
	defer func() { <-receiving }()
	return stream.RecvMsg(reply)
}

// execCodec decodes a response of ExecSync without the bytes of its outputs after maxOutput.
type execCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c execCodec) Unmarshal(data mem.BufferSlice, v any) error {
	resp, ok := v.(*runtimeapi.ExecSyncResponse)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r := data.Reader()
	defer r.Close()
	for r.Remaining() > 0 {
		if err := decodeField(r, resp); err != nil {
			return fmt.Errorf("decode the response of ExecSync: %w", err)
		}
	}
	return nil
}

// The wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// decodeField decodes the next field of a response. It ignores unknown fields.
func decodeField(r *mem.Reader, resp *runtimeapi.ExecSyncResponse) error {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	field, n := tag>>3, uint64(0)
	switch tag & 7 {
	case wireVarint:
		value, err := binary.ReadUvarint(r)
		if field == 3 {
			resp.ExitCode = int32(value)
		}
		return err
	case wireFixed64:
		n = 8
	case wireFixed32:
		n = 4
	case wireBytes:
		if n, err = binary.ReadUvarint(r); err != nil {
			return err
		}
	default:
		return fmt.Errorf("wire type %d", tag&7)
	}
	if n > uint64(r.Remaining()) {
		return io.ErrUnexpectedEOF
	}
	if tag&7 == wireBytes && (field == 1 || field == 2) {
		output := make([]byte, min(n, maxOutput))
		if _, err := io.ReadFull(r, output); err != nil {
			return err
		}
		n -= uint64(len(output))
		if field == 1 {
			resp.Stdout = output
		} else {
			resp.Stderr = output
		}
	}
	_, err = r.Discard(int(n))
	return err
}
