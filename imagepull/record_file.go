package imagepull

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// records stores, for each image that podrun pulled, the Secrets whose credentials podrun used. The
// files have the kubelet's format: <dir>/pulled/sha256-<hash of the image's ID> and, during a pull,
// <dir>/pulling/sha256-<hash of the image's name>. If a process is killed during a pull, the file
// in pulling shows that the image was not present before. The files contain hashes of credentials,
// never credentials. Several processes may use the directory concurrently.
type records struct{ dir string }

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

func (r records) pulled(id string) string     { return filepath.Join(r.dir, "pulled", fileOf(id)) }
func (r records) pulling(image string) string { return filepath.Join(r.dir, "pulling", fileOf(image)) }

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
	return func() { f.Close() }, nil
}

// intend records that podrun is about to pull an image. The returned function removes the
// record, unless another process is still pulling the image.
func (r records) intend(image string) (func(), error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := os.OpenFile(r.pulling(image), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(kubelet.ImagePullIntent{TypeMeta: typeOf("ImagePullIntent"), Image: image})
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		// Flock does not block, because only a process that holds r.lock acquires the exclusive
		// lock.
		err = hostfile.Flock(f, unix.LOCK_SH)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { r.done(image, f) }, nil
}

func (r records) done(image string, f *os.File) {
	defer f.Close()
	unlock, err := r.lock()
	if err != nil {
		// If the record remains, the only effect is that the next pod contacts the registry.
		return
	}
	defer unlock()
	if hostfile.Flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Remove(r.pulling(image)) // For this file, the effect is the same.
	}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: kind}
}

// find reads an image's record. The result record is nil if there is no record, or if podrun cannot use
// it. The result ours reports whether podrun pulled the image, or may have pulled it.
func (r records) find(image, id string) (record *kubelet.ImagePulledRecord, ours bool, err error) {
	found := pulledFile.Examine(context.Background(), r.pulled(id))
	if found.State != statefile.Absent {
		if found.State == statefile.Intact && found.Value.ImageRef == id {
			record = &found.Value
		}
		return record, true, nil
	}
	_, err = os.Stat(r.pulling(image))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return nil, true, err
}

// add records the credentials with which podrun pulled an image.
func (r records) add(image, id string, pulled kubelet.ImagePullCredentials) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	record, _, err := r.find(image, id)
	if err != nil {
		return err
	}
	if record == nil {
		record = &kubelet.ImagePulledRecord{}
	}
	name := withoutTag(image)
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
// every pod may use the image. The argument dir is Options.RecordDir, image is the image's name,
// and id is the runtime's ID of the image. It is not an error if no record exists. The error is the
// file system's.
func Preloaded(dir, image, id string) error {
	r := records{dir}
	for _, file := range []string{r.pulled(id), r.pulling(image)} {
		if err := statefile.Remove(file); err != nil {
			return fmt.Errorf("delete the pull record of image %s: %w", image, err)
		}
	}
	return nil
}
