package imagepull

import (
	"context"
	"time"

	"github.com/podrun/podrun/imagepull/archive"
)

// lostBlob returns the digest of the manifest or the configuration of an image that containerd lists but
// has lost, so that no container can be created with the image; "" if none is lost. A lost layer does not
// count, because containerd does not need it after it has unpacked the image, and this host may be unable
// to pull the image. Of a runtime without containerd's services, the result is always "".
func (p *Puller) lostBlob(ctx context.Context, image Image) string {
	conn := p.client.Images.Conn()
	if conn == nil {
		return ""
	}
	// If the check fails, the runtime reports the same problem when podrun uses the image.
	lost, _ := archive.Lost(ctx, conn, image.Ref, false)
	return lost
}

// isLost reports whether the image has a lost blob, and podrun has no archive to load it from.
func (p *Puller) isLost(ctx context.Context, image Image) bool {
	begun := time.Now()
	if p.lostBlob(ctx, image) == "" {
		return false
	}
	return p.opt.Repair == nil || !p.opt.Repair(ctx, begun) || p.lostBlob(ctx, image) != ""
}

// forgetLost makes containerd forget the lost blobs of an image, because a pull would otherwise skip
// them.
func (p *Puller) forgetLost(ctx context.Context, image Image) {
	for range maxLost {
		lost := p.lostBlob(ctx, image)
		// If containerd does not forget the blob, the pull fails with the reason.
		if lost == "" || archive.Forget(ctx, p.client.Images.Conn(), lost) != nil {
			return
		}
	}
}

// maxLost is the number of blobs that forgetLost checks: an index, a manifest and a configuration.
const maxLost = 3
