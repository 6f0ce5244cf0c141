package archive

import (
	"bytes"
	"context"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// daemon is the state of a containerd, whose services are below. Like containerd, it keeps the file of a
// blob that exists when the blob is written, and removes files that the database does not list only
// with its garbage collector.
type daemon struct {
	sync.Mutex
	records map[string]int64  // sizes of blobs in the database
	files   map[string][]byte // contents of blobs
	images  map[string]*types.Descriptor
}

type contents struct {
	contentapi.UnimplementedContentServer
	*daemon
}

type images struct {
	imagesapi.UnimplementedImagesServer
	*daemon
}

type leases struct {
	leasesapi.UnimplementedLeasesServer
	*daemon
}

// serve starts the daemon, and returns a connection to it.
func serve(t *testing.T) (*daemon, *grpc.ClientConn) {
	t.Helper()
	d := &daemon{records: map[string]int64{}, files: map[string][]byte{}, images: map[string]*types.Descriptor{}}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	contentapi.RegisterContentServer(server, contents{daemon: d})
	imagesapi.RegisterImagesServer(server, images{daemon: d})
	leasesapi.RegisterLeasesServer(server, leases{daemon: d})
	go func() { _ = server.Serve(l) }() // it ends with the test
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return d, conn
}

func (d contents) Info(_ context.Context, r *contentapi.InfoRequest) (*contentapi.InfoResponse, error) {
	d.Lock()
	defer d.Unlock()
	size, ok := d.records[r.Digest]
	if !ok {
		return nil, status.Error(codes.NotFound, "not found")
	}
	return &contentapi.InfoResponse{Info: &contentapi.Info{Digest: r.Digest, Size: size}}, nil
}

func (d contents) Read(r *contentapi.ReadContentRequest, stream contentapi.Content_ReadServer) error {
	d.Lock()
	defer d.Unlock()
	file, ok := d.files[r.Digest]
	if !ok {
		return status.Error(codes.NotFound, "not found")
	}
	file = file[min(int(r.Offset), len(file)):]
	for part := range slices.Chunk(file, 1<<20) {
		if err := stream.Send(&contentapi.ReadContentResponse{Data: part}); err != nil {
			return err
		}
	}
	return nil
}

func (d contents) Write(stream contentapi.Content_WriteServer) error {
	var data []byte
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		d.Lock()
		_, exists := d.records[r.Expected]
		if !exists && r.Action == contentapi.WriteAction_COMMIT {
			if d.records[r.Expected] = r.Total; d.files[r.Expected] == nil {
				d.files[r.Expected] = data
			}
		}
		d.Unlock()
		if exists {
			return status.Error(codes.AlreadyExists, "already exists")
		}
		data = append(data, r.Data...)
		if err := stream.Send(&contentapi.WriteContentResponse{Offset: int64(len(data))}); err != nil {
			return err
		}
	}
}

func (d contents) Delete(_ context.Context, r *contentapi.DeleteContentRequest) (*emptypb.Empty, error) {
	d.Lock()
	defer d.Unlock()
	delete(d.records, r.Digest)
	return &emptypb.Empty{}, nil
}

func (d images) Get(_ context.Context, r *imagesapi.GetImageRequest) (*imagesapi.GetImageResponse, error) {
	d.Lock()
	defer d.Unlock()
	if d.images[r.Name] == nil {
		return nil, status.Error(codes.NotFound, "not found")
	}
	return &imagesapi.GetImageResponse{Image: &imagesapi.Image{Name: r.Name, Target: d.images[r.Name]}}, nil
}

func (d images) Create(_ context.Context, r *imagesapi.CreateImageRequest) (*imagesapi.CreateImageResponse, error) {
	d.Lock()
	defer d.Unlock()
	if d.images[r.Image.Name] != nil {
		return nil, status.Error(codes.AlreadyExists, "already exists")
	}
	d.images[r.Image.Name] = r.Image.Target
	return &imagesapi.CreateImageResponse{}, nil
}

func (d images) Update(_ context.Context, r *imagesapi.UpdateImageRequest) (*imagesapi.UpdateImageResponse, error) {
	d.Lock()
	defer d.Unlock()
	d.images[r.Image.Name] = r.Image.Target
	return &imagesapi.UpdateImageResponse{}, nil
}

func (d leases) Create(context.Context, *leasesapi.CreateRequest) (*leasesapi.CreateResponse, error) {
	return &leasesapi.CreateResponse{Lease: &leasesapi.Lease{ID: "lease"}}, nil
}

func (d leases) Delete(_ context.Context, r *leasesapi.DeleteRequest) (*emptypb.Empty, error) {
	d.Lock()
	defer d.Unlock()
	if r.Sync {
		maps.DeleteFunc(d.files, func(digest string, _ []byte) bool { _, listed := d.records[digest]; return !listed })
	}
	return &emptypb.Empty{}, nil
}

// TestLostBlobs checks that a blob whose file was lost, emptied or filled with zeros is found, and that a
// load writes it again.
func TestLostBlobs(t *testing.T) {
	large := strings.Repeat("layer", maxHashed/4)
	for name, damage := range map[string]func(files map[string][]byte, digest string){
		"missing": func(files map[string][]byte, digest string) { delete(files, digest) },
		"empty":   func(files map[string][]byte, digest string) { files[digest] = []byte{} },
		"zeros":   func(files map[string][]byte, digest string) { files[digest] = make([]byte, len(files[digest])) },
	} {
		d, conn := serve(t)
		a, err := Read(t.Context(), tarOf(t, "c.json", `{"os":"linux","architecture":"`+runtime.GOARCH+`"}`, "small.tar", "small", "large.tar", large,
			"manifest.json", `[{"Config":"c.json","RepoTags":["web:1"],"Layers":["small.tar","large.tar"]}]`))
		if err != nil {
			t.Fatal(err)
		}
		load := func() {
			t.Helper()
			if _, err := a.Load(t.Context(), conn); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		const image = "docker.io/library/web:1"
		lost := func(layers bool) string {
			t.Helper()
			digest, err := Lost(t.Context(), conn, image, layers)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return digest
		}
		if got := lost(true); got != "" {
			t.Errorf("%s: an absent image has lost %s", name, got)
		}
		load()
		intact := maps.Clone(d.files)
		if got := lost(true); got != "" || len(intact) != 4 {
			t.Errorf("%s: lost %s of %d blobs", name, got, len(intact))
		}
		for _, digest := range slices.Sorted(maps.Keys(intact)) {
			layer := string(intact[digest]) == "small" || string(intact[digest]) == large
			if name == "zeros" && string(intact[digest]) == large {
				continue // podrun does not read large blobs
			}
			damage(d.files, digest)
			if got := lost(true); got != digest {
				t.Errorf("%s: lost %q, want %s", name, got, digest)
			}
			if got := lost(false); (got == digest) == layer {
				t.Errorf("%s: without layers: lost %q, a layer %t", name, got, layer)
			}
			delete(d.records, digest) // as after Forget and a failed pull
			if got := lost(true); got != digest {
				t.Errorf("%s: lost %q, want %s, which is not listed", name, got, digest)
			}
			d.records[digest] = int64(len(intact[digest]))
			load()
			if !bytes.Equal(d.files[digest], intact[digest]) {
				t.Errorf("%s: a load did not restore %s", name, digest)
			}
		}
	}
}

// TestForget checks that a pull can write a lost blob again.
func TestForget(t *testing.T) {
	d, conn := serve(t)
	d.records["sha256:1"], d.files["sha256:1"] = 5, []byte{}
	for range 2 { // a second process may have been faster
		if err := Forget(t.Context(), conn, "sha256:1"); err != nil || len(d.records)+len(d.files) != 0 {
			t.Errorf("%v, %v, %v", d.records, d.files, err)
		}
	}
}
