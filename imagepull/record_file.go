package imagepull

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// records stores, for each image that podrun pulled, the Secrets whose credentials podrun used. The
// files have the kubelet's format: <dir>/pulled/sha256-<hash of the image's ID> and, during a pull,
// <dir>/pulling/sha256-<hash of the image's full name>. The files contain hashes of credentials,
// never credentials. Several processes may use the directory concurrently.
type records struct{ dir string }

// intent is the record of a pull that is in progress, or whose process was killed. It has no effect on an image
// that was present before the pull. At its start, the kubelet instead records for each image with such a name that
// it was pulled without credentials, so that pods on a host without a network lose an image that was present all
// the time.
type intent struct {
	kubelet.ImagePullIntent
	// Before are the IDs of all images that were present before the pull. The ID of the image that has the name
	// would not be enough: a pull can give a further name to an image.
	Before []string `json:"imageRefsBefore,omitempty"`
}

// intentFile is the record of a pull. It is synced, because a power failure during the pull must not leave
// an image that every pod may use, or one that no pod may use.
var intentFile = statefile.Declare(statefile.Kind[intent]{
	What: "a pull that is in progress", Files: "image_manager/pulling/<hash of the image's name>", Scope: statefile.Image,
	On: statefile.Answers{Absent: "no pull is in progress", Corrupt: provesAgain, Unreadable: provesAgain, Newer: statefile.Ignore},
	Paths: func(l identity.Layout) []string {
		return jsonFiles(filepath.Join(l.ImageRecords(), "pulling"), "")
	},
	Format: statefile.Unversioned, Limit: maxRecord, Mode: 0o600,
})

// provesAgain is the answer of intentFile.
const provesAgain statefile.Action = "if podrun did not record the credentials of the image, the next pod contacts the registry"

// pulledFile is the record of an image. Without it, the next pull contacts the registry and writes the record
// again.
var pulledFile = statefile.Declare(statefile.Kind[kubelet.ImagePulledRecord]{
	What: "the Secrets with which an image was pulled", Files: "image_manager/pulled/<hash of the image's ID>", Scope: statefile.Image,
	On: statefile.Answers{Absent: "podrun did not pull the image", Corrupt: pullsAgain, Unreadable: pullsAgain, Newer: statefile.Ignore},
	Paths: func(l identity.Layout) []string {
		return jsonFiles(filepath.Join(l.ImageRecords(), "pulled"), "")
	},
	Format: statefile.Unversioned, Limit: maxRecord, Mode: 0o600,
})

// pullsAgain is the answer of pulledFile.
const pullsAgain statefile.Action = "the next pod contacts the registry, and podrun writes the record again"

func fileOf(name string) string { return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name))) }

func (r records) pulled(id string) string { return filepath.Join(r.dir, "pulled", fileOf(id)) }
func (r records) pulling(image string) string {
	return filepath.Join(r.dir, "pulling", fileOf(FullName(image)))
}

// FullName returns the name that all spellings of an image's name have in common, such as
// docker.io/library/busybox:1.36. A runtime may expand a short name differently; then images of two names share
// a record, which protects both.
func FullName(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	if digested, ok := named.(reference.Digested); ok {
		return reference.TrimNamed(named).Name() + "@" + digested.Digest().String()
	}
	return reference.TagNameOnly(named).String()
}

// fullNames returns the full names of an image that the runtime has, and the one by which it was found.
func fullNames(image string, found *runtimeapi.Image) []string {
	names := []string{FullName(image)}
	for _, name := range slices.Concat(found.GetRepoTags(), found.GetRepoDigests()) {
		names = append(names, FullName(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lock excludes other processes from the records. A process must hold the lock only briefly.
func (r records) lock() (unlock func(), err error) {
	for _, dir := range []string{"pulled", "pulling"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hostfile.Flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = hostfile.Unlock(f) }, nil
}

// pull is the intent of a pull of this process. The lock of its file shows that the process is alive.
type pull struct {
	records
	path   string
	file   *os.File
	before []string // intent.Before of the record
}

// intend records that podrun is about to pull an image. before are the IDs of the images that are present. If there
// is a record already, it remains as it is: one of these images may be that of another pull, whose process was
// killed.
func (r records) intend(image string, before []string) (*pull, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	p := &pull{records: r, path: r.pulling(image)}
	switch earlier := intentFile.Examine(context.Background(), p.path); earlier.State {
	case statefile.Intact:
		p.before = earlier.Value.Before
	case statefile.Absent:
		p.before = before
		fallthrough
	default:
		err = intentFile.Write(p.path, intent{kubelet.ImagePullIntent{TypeMeta: typeOf("ImagePullIntent"), Image: image}, p.before})
	}
	if err != nil {
		return nil, err
	}
	if p.file, err = hostfile.Open(p.path); err != nil {
		return nil, err
	}
	// Flock does not block, because only a process that holds r.lock acquires the exclusive lock.
	if err := hostfile.Flock(p.file, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// end ends the pull. If settled is true, it removes the record, unless another process is pulling the image. A
// record that remains protects an image that podrun may have pulled without recording the credentials.
func (p *pull) end(settled bool) {
	defer func() { _ = hostfile.Unlock(p.file) }()
	if !settled {
		return
	}
	unlock, err := p.lock()
	if err != nil {
		return
	}
	defer unlock()
	removeDead(p.path, p.file)
}

// removeDead removes a record whose processes have all ended. The caller must hold the lock. file is the record,
// which another process may have removed and created again since it was opened.
func removeDead(path string, file *os.File) {
	mine, err := file.Stat()
	if err != nil || hostfile.Flock(file, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
		_ = os.Remove(path) // if the record remains, the only effect is that a later pod may contact the registry
	}
}

// drop removes a record that has no effect, unless a process is pulling the image.
func (r records) drop(path string) {
	unlock, err := r.lock()
	if err != nil {
		return
	}
	defer unlock()
	if file, err := hostfile.Open(path); err == nil {
		defer func() { _ = hostfile.Unlock(file) }()
		removeDead(path, file)
	}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: kind}
}

// find reads the record of an image. The result record is nil if there is no record, or if podrun cannot use
// it. The result ours reports whether podrun pulled the image, or may have pulled it under any of its names.
func (r records) find(image string, found *runtimeapi.Image) (record *kubelet.ImagePulledRecord, ours bool) {
	// A pull removes its intent after it has written the other record, so that one of them is always found.
	pending := false
	for _, name := range fullNames(image, found) {
		path := r.pulling(name)
		switch got := intentFile.Examine(context.Background(), path); {
		case got.State == statefile.Absent:
		case got.State == statefile.Intact && slices.Contains(got.Value.Before, found.GetId()):
			r.drop(path)
		default:
			pending = true
		}
	}
	record, exists := r.read(found.GetId())
	return record, exists || pending
}

// read reads the record of a pull that has ended. The result exists reports whether there is one, even if podrun
// cannot use it.
func (r records) read(id string) (record *kubelet.ImagePulledRecord, exists bool) {
	found := pulledFile.Examine(context.Background(), r.pulled(id))
	if found.State == statefile.Intact && found.Value.ImageRef == id {
		record = &found.Value
	}
	return record, found.State != statefile.Absent
}

// add records the credentials with which podrun pulled an image.
func (r records) add(image, id string, pulled kubelet.ImagePullCredentials) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	record, _ := r.read(id)
	if record == nil {
		record = &kubelet.ImagePulledRecord{}
	}
	name := WithoutTag(image)
	merged, changed := merge(record.CredentialMapping[name], pulled)
	if !changed {
		return nil
	}
	if record.CredentialMapping == nil {
		record.CredentialMapping = map[string]kubelet.ImagePullCredentials{}
	}
	record.TypeMeta, record.ImageRef = typeOf("ImagePulledRecord"), id
	record.CredentialMapping[name] = merged
	record.LastUpdatedTime = metav1.NewTime(time.Now())
	return pulledFile.Write(r.pulled(id), *record)
}

// ForgetPulls removes the records (KEP-2535) of images that the runtime no longer has. The argument
// dir is Options.RecordDir, and the argument "here" contains the IDs of the images that the runtime
// has. It is not an error if dir does not exist. The error is the file system's.
func ForgetPulls(dir string, here []string) error {
	r := records{dir}
	keep := map[string]bool{"": true}
	for _, id := range here {
		keep[fileOf(id)] = true
	}
	files, err := os.ReadDir(filepath.Join(r.dir, "pulled"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete image pull records: %w", err)
	}
	unlock, err := r.lock()
	if err != nil {
		return fmt.Errorf("delete image pull records: %w", err)
	}
	defer unlock()
	for _, f := range files {
		// A podrun process that was killed while it wrote a record may leave a file whose name
		// begins with a dot.
		if keep[f.Name()] || !strings.HasPrefix(strings.TrimPrefix(f.Name(), "."), "sha256-") {
			continue
		}
		if err := statefile.Remove(filepath.Join(r.dir, "pulled", f.Name())); err != nil {
			return fmt.Errorf("delete image pull records: %w", err)
		}
	}
	return nil
}

// Preloaded removes the records (KEP-2535) of an image that was loaded from an archive, so that
// every pod may use the image. The argument dir is Options.RecordDir, image is the name under which the image
// was loaded, and found is the runtime's image. It is not an error if no record exists. The error is the
// file system's.
func Preloaded(dir, image string, found *runtimeapi.Image) error {
	r := records{dir}
	files := []string{r.pulled(found.GetId())}
	for _, name := range fullNames(image, found) {
		files = append(files, r.pulling(name))
	}
	for _, file := range files {
		if err := statefile.Remove(file); err != nil {
			return fmt.Errorf("delete the pull record of image %s: %w", image, err)
		}
	}
	return nil
}
