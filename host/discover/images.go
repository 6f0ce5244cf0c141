package discover

import (
	"context"
	"encoding/json"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
)

// readImages requests images by name from the runtime. It omits images that are not present or
// that the runtime does not report. podrun checks them again when a container starts.
func readImages(ctx context.Context, client *cri.Client, names []string) map[string]host.Image {
	if client == nil || len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]host.Image{}
	for _, name := range names {
		wg.Go(func() {
			seen, err := client.Images.Details(ctx, &runtimeapi.ImageSpec{Image: name})
			if err != nil || seen.GetImage() == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = imageOf(seen)
		})
	}
	wg.Wait()
	return out
}

// imageOf parses {"info": "{\"imageSpec\": …}"}, which containerd and CRI-O return. It is the
// configuration of the image (OCI image-spec).
func imageOf(seen *runtimeapi.ImageStatusResponse) host.Image {
	var info struct {
		ImageSpec struct{ OS, Architecture string }
	}
	out := host.Image{}
	if json.Unmarshal([]byte(seen.GetInfo()["info"]), &info) == nil {
		out.OS, out.Arch = info.ImageSpec.OS, info.ImageSpec.Architecture
	}
	out.UID, out.Username = cri.ImageUser(seen.GetImage())
	return out
}
