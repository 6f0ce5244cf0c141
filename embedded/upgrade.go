package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// versionsFile is the file of an archive with the versions of its components.
const versionsFile = "share/versions.json"

// CheckUpgrade returns an error if an upgrade would replace containerd with an older version,
// because an older containerd may not be able to read the database of a newer one. If it cannot
// determine a version, for example because the files of an archive were removed, it returns no
// error. The error is of kind Refused.
func CheckUpgrade(ctx context.Context, l Layout, used string, a Archive) error {
	before, err := hostfile.ReadNoFollow(ctx, filepath.Join(l.Unpacked(used), versionsFile), maxRecord)
	if err != nil {
		return nil
	}
	after, err := a.File(versionsFile, maxRecord)
	if err != nil || !olderContainerd(before, after) {
		return nil
	}
	return &problem.Error{Kind: problem.Refused, Object: "embedded runtime",
		Err:  fmt.Errorf("containerd %s in this podrun binary is older than the running %s and may not be able to read its data", containerdOf(after), containerdOf(before)),
		Hint: "use a newer podrun-bundle, set --force, or remove the data with 'podrun runtime down'"}
}

// olderContainerd reports whether the containerd in the second versions file is older than the
// one in the first. It is pure.
func olderContainerd(before, after []byte) bool {
	was, err := version.ParseSemantic(containerdOf(before))
	if err != nil {
		return false
	}
	is, err := version.ParseSemantic(containerdOf(after))
	return err == nil && is.LessThan(was)
}

// containerdOf returns containerd's version in a versions file, or "" if it has none.
func containerdOf(versions []byte) string {
	var v map[string]string
	if json.Unmarshal(versions, &v) != nil {
		return ""
	}
	return v["containerd"]
}
