package manifest

import (
	"testing"

	"github.com/podrun/podrun/internal/fielddoc"
)

// TestKindsExplained: explain documents every kind that podrun reads, under the name in the manifest.
func TestKindsExplained(t *testing.T) {
	for _, name := range kindNames {
		found := fielddoc.Find(name)
		if found == nil || found.Name != name {
			t.Errorf("explain %s: %+v", name, found)
		}
	}
}
