package imagepull

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// endless is containerd's content service while a registry sends 1 MiB per second of one blob.
type endless struct {
	// nil, so that any other method panics
	contentapi.ContentClient
	ref      string // of the ingest
	document string // the manifest m; "" if it has not arrived
	begun    time.Time

	mu      sync.Mutex
	aborted []string
}

func (e *endless) ListStatuses(context.Context, *contentapi.ListStatusesRequest, ...grpc.CallOption) (*contentapi.ListStatusesResponse, error) {
	return &contentapi.ListStatusesResponse{Statuses: []*contentapi.Status{{Ref: e.ref, Offset: int64(time.Since(e.begun) / time.Second << 20)}}}, nil
}

func (e *endless) List(_ context.Context, r *contentapi.ListContentRequest, _ ...grpc.CallOption) (contentapi.Content_ListClient, error) {
	if e.document == "" || !strings.HasPrefix(r.Filters[0], "labels.") {
		return &infoStream{}, nil
	}
	return &infoStream{found: []*contentapi.Info{{Digest: "m", CreatedAt: timestamppb.New(e.begun.Add(time.Second)), UpdatedAt: timestamppb.New(e.begun.Add(time.Second)),
		Labels: map[string]string{labelChildren + "config": "c", labelChildren + "l.0": "l", labelSource + "r.example": "app"}}}}, nil
}

func (e *endless) Read(context.Context, *contentapi.ReadContentRequest, ...grpc.CallOption) (contentapi.Content_ReadClient, error) {
	return &documentStream{data: e.document}, nil
}

func (e *endless) Abort(_ context.Context, r *contentapi.AbortRequest, _ ...grpc.CallOption) (*emptypb.Empty, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aborted = append(e.aborted, r.Ref)
	return &emptypb.Empty{}, nil
}

type documentStream struct {
	grpc.ClientStream
	data string
}

func (s *documentStream) Recv() (*contentapi.ReadContentResponse, error) {
	if s.data == "" {
		return nil, io.EOF
	}
	r := &contentapi.ReadContentResponse{Data: []byte(s.data)}
	s.data = ""
	return r, nil
}

// TestEndlessBlob checks that a registry cannot fill the disk: podrun cancels a pull whose layer,
// config or manifest is larger than the manifest declares, and discards what was received.
func TestEndlessBlob(t *testing.T) {
	const manifest = `{"config":{"digest":"c","size":1000},"layers":[{"digest":"l","size":3145728}]}`
	for name, test := range map[string]struct {
		ref, document string
		stall         time.Duration
		// the time after which podrun cancels the pull; 0 if it does not
		after time.Duration
		want  string
	}{
		"a layer":                  {"layer-l", manifest, time.Minute, 4 * time.Second, "the registry sends more than the 3145728 bytes that the manifest declares for l"},
		"without a stall timeout":  {"layer-l", manifest, 0, 4 * time.Second, "the registry sends more than the 3145728 bytes"},
		"a config":                 {"config-c", manifest, time.Minute, time.Second, "the registry sends more than the 1000 bytes that the manifest declares for c"},
		"a layer without a size":   {"layer-l", `{"config":{"digest":"c","size":1},"layers":[{"digest":"l"}]}`, time.Minute, time.Second, "more than the 0 bytes"},
		"a layer of negative size": {"layer-l", `{"config":{"digest":"c","size":1},"layers":[{"digest":"l","size":-1}]}`, time.Minute, 250 * time.Millisecond, "more than the -1 bytes"},
		"a manifest":               {"manifest-x", "", time.Minute, 9 * time.Second, "the registry sends more than 8 MiB for the manifest x"},
		"an index":                 {"index-x", "", time.Minute, 9 * time.Second, "the registry sends more than 8 MiB for the manifest x"},
		"a layer of another image": {"layer-other", manifest, time.Minute, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				r.slow["r.example/app:1"] = 20 * time.Second
				p := r.puller(Options{StallTimeout: test.stall})
				store := &endless{ref: test.ref, document: test.document, begun: time.Now()}
				p.watch.content = store
				pulls := p.Start(t.Context(), planOf(t, "containers:\n"+container("app", "r.example/app:1", "IfNotPresent")))
				if pulls.BacksOff(t.Context(), "app") != (test.want != "") {
					t.Errorf("canceled: %t", test.want == "")
				}
				took := time.Since(store.begun)
				if test.want != "" && (took < test.after || took > test.after+2*time.Second) {
					t.Errorf("canceled after %s, want %s", took, test.after)
				}
				pulls.Stop()
				r.mu.Lock()
				defer r.mu.Unlock()
				if events := strings.Join(r.events, "\n"); strings.Contains(events, "Failed to pull image") != (test.want != "") || !strings.Contains(events, test.want) {
					t.Error(events)
				}
				if want := map[bool][]string{true: {test.ref}}[test.want != ""]; !slices.Equal(store.aborted, want) {
					t.Errorf("discarded %v, want %v", store.aborted, want)
				}
			})
		})
	}
}
