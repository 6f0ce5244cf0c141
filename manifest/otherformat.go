package manifest

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// otherFormat recognizes the format of an object without a kind. It returns the name of the
// format, and a hint with the command that uses such a file. If the format is unknown, it returns
// "".
func otherFormat(file string, raw []byte) (format, hint string) {
	var has struct {
		Services  map[string]json.RawMessage `json:"services"`
		Resources []json.RawMessage          `json:"resources"`
		Bases     []json.RawMessage          `json:"bases"`
		Name      string                     `json:"name"`
		Version   string                     `json:"version"`
	}
	// If a field has another type, the object does not have one of these formats.
	_ = json.Unmarshal(raw, &has)
	dir, base := filepath.Split(file)
	if dir == "" {
		dir = "."
	}
	dir = filepath.Clean(dir)
	switch {
	case isKustomization(base), has.Resources != nil, has.Bases != nil:
		return "a kustomization", "run 'podrun apply -k " + dir + "'"
	case base == "Chart.yaml":
		return "a Helm chart", "run 'helm template " + dir + " | podrun apply -f -'"
	case len(has.Services) > 0:
		return "a Compose file", "run 'kompose convert -f " + file + " --stdout | podrun apply -f -'"
	}
	return "", ""
}

// isKustomization reports whether the name of a file is one that kustomize reads.
func isKustomization(base string) bool {
	name := strings.ToLower(base)
	return name == "kustomization.yaml" || name == "kustomization.yml" || name == "kustomization"
}

// isBinary reports whether data is not text, because it contains a NUL byte. YAML, JSON and all
// text encodings except UTF-16 exclude NUL bytes. isBinary detects UTF-16 by its byte order mark.
func isBinary(data []byte) bool {
	head := data[:min(len(data), 4096)]
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return false
	}
	return bytes.IndexByte(head, 0) >= 0
}

// binaryHint returns the hint for a file that is not text.
func binaryHint(file string, data []byte) string {
	tarMagic := len(data) > 262 && string(data[257:262]) == "ustar"
	if tarMagic || bytes.HasPrefix(data, []byte{0x1f, 0x8b}) || bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return "name a manifest; to load the images of an archive, run 'podrun image load " + file + "'"
	}
	return "name a manifest in YAML or JSON"
}
