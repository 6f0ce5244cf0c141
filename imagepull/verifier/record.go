package verifier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
)

// Accepted is the record that the programs have accepted an image. A host without a network needs it, because programs
// may contact a registry.
type Accepted struct {
	Name     string `json:"name"`
	Digest   string `json:"digest"`
	Programs string `json:"programs"` // Programs.Print
}

var acceptedFile = statefile.Declare(statefile.Kind[Accepted]{
	What: "the verification of an image", Files: "image_manager/verified/<hash of the image's name>", Scope: statefile.Image,
	On:    statefile.Answers{Absent: "the image was not verified", Corrupt: verifiesAgain, Unreadable: verifiesAgain, Newer: verifiesAgain},
	Paths: acceptedFiles, Mode: 0o600, DirMode: 0o700,
})

// verifiesAgain is the answer of acceptedFile.
const verifiesAgain statefile.Action = "the image verifiers are asked again"

func acceptedDir(l identity.Layout) string { return filepath.Join(l.ImageRecords(), "verified") }

func acceptedPath(l identity.Layout, name string) string {
	return filepath.Join(acceptedDir(l), fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name))))
}

func acceptedFiles(l identity.Layout) []string {
	paths, _ := hostfile.Entries(acceptedDir(l), "sha256-", "")
	return paths
}

// VerifyOnce is Programs.Verify unless the same programs have already accepted the image. The error of the record is
// ignored, because it only makes the next verification necessary.
func (p Programs) VerifyOnce(ctx context.Context, l identity.Layout, i Image) error {
	path, now := acceptedPath(l, i.Name), Accepted{i.Name, i.Digest, p.print}
	if found := acceptedFile.Examine(ctx, path); found.State == statefile.Intact && found.Value == now {
		return nil
	}
	if err := p.Verify(ctx, i); err != nil {
		return err
	}
	_ = acceptedFile.Write(path, now)
	return nil
}

// Forget removes the records of the images that are no longer present. present contains their full names.
func Forget(l identity.Layout, present map[string]bool) error {
	var errs []error
	for _, path := range acceptedFiles(l) {
		found := acceptedFile.Examine(context.Background(), path)
		if found.State == statefile.Intact && !present[found.Value.Name] {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}
