package volume

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/problem"
)

// Files sets up a directory of files that podrun writes and containers read. It is for configMap,
// secret, downwardAPI and projected volumes. A repeated setup replaces all files atomically, or
// writes nothing if no file has changed.
type Files struct {
	// the maximum size of the tmpfs that contains the files; 0 means the kernel's default
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	Files     []File `json:"files"` // sorted by path
	// Nested lists the directories at which containers mount other volumes. podrun creates them,
	// because the runtime cannot: containers mount the volume read-only.
	Nested []string `json:"nested,omitempty"`
}

// File is one file of a Files volume (configMap, secret, downwardAPI or projected). podrun never
// prints its content.
type File struct {
	Path string // relative to the volume
	Mode uint32 // permission bits
	// UID is the user to whom podrun gives the file; nil means root.
	UID  *int64
	Data []byte
	// Credential is the name of the credential of the host that is the content; "" if Data is the content. podrun
	// decrypts it when it writes the file.
	Credential string
}

// MarshalJSON marshals everything except the content.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path  string `json:"path"`
		Mode  string `json:"mode"`
		UID   *int64 `json:"uid,omitempty"`
		Bytes int    `json:"bytes"`
		// the value is not known when the plan is made
		Credential string `json:"credential,omitempty"`
	}{f.Path, fmt.Sprintf("%#o", f.Mode), f.UID, len(f.Data), f.Credential})
}

// Limits on paths. The file system or the kubelet imposes them.
const (
	longestName = 255
	longestPath = 4096
)

// payload collects the files of a volume.
type payload struct {
	// if two files have the same path, the last one takes precedence, as in the kubelet
	files       []File
	defaultMode uint32
}

func newPayload(defaultMode *int32) *payload {
	mode := corev1.ConfigMapVolumeSourceDefaultMode
	if defaultMode != nil {
		mode = *defaultMode
	}
	return &payload{files: []File{}, defaultMode: uint32(mode)}
}

func (p *payload) add(at string, mode *int32, data []byte) error {
	if err := checkPath(at); err != nil {
		return err
	}
	f := File{Path: path.Clean(at), Mode: p.defaultMode, Data: data}
	if mode != nil {
		f.Mode = uint32(*mode)
	}
	p.files = append(p.files, f)
	return nil
}

// checkPath refuses paths that are impossible for files in a volume, because the API accepts NUL,
// and names of any length.
func checkPath(at string) error {
	names := strings.Split(at, "/")
	switch {
	case at == "" || path.Clean(at) == ".":
		return fmt.Errorf("the path is empty")
	case path.IsAbs(at):
		return fmt.Errorf("path %s is absolute", shortened(at))
	case slices.Contains(names, ".."):
		return fmt.Errorf("path %s contains '..'", shortened(at))
	case strings.HasPrefix(at, ".."):
		return fmt.Errorf("path %s starts with '..', which is reserved for the volume's own files", shortened(at))
	case strings.ContainsRune(at, 0):
		return fmt.Errorf("path %s contains a NUL byte", shortened(at))
	case len(at) > longestPath:
		return fmt.Errorf("path %s has %d bytes, more than the limit of %d for a path", shortened(at), len(at), longestPath)
	}
	for _, name := range names {
		if len(name) > longestName {
			return fmt.Errorf("path %s has a file name of %d bytes, more than the limit of %d", shortened(at), len(name), longestName)
		}
	}
	return nil
}

func shortened(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// sorted returns the files, sorted by path. It returns an error if the same path is both a file and
// a directory.
func (p *payload) sorted() ([]File, error) {
	slices.SortStableFunc(p.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	out := p.files[:0]
	for i, f := range p.files {
		if i+1 == len(p.files) || p.files[i+1].Path != f.Path {
			out = append(out, f)
		}
	}
	for _, f := range out {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if _, ok := slices.BinarySearchFunc(out, dir, func(f File, dir string) int { return strings.Compare(f.Path, dir) }); ok {
				return nil, fmt.Errorf("path %s is both a file and the directory of %s", shortened(dir), shortened(f.Path))
			}
		}
	}
	return out, nil
}

// tops returns the first components of the files' paths, sorted.
func tops(files []File) []string {
	names := make([]string, 0, len(files))
	for _, f := range files {
		top, _, _ := strings.Cut(f.Path, "/")
		names = append(names, top)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxFiles limits the number of files in all volumes of a pod. Without this limit, each volume
// could contain all keys of a large ConfigMap.
const maxFiles = 50000

// FileCount returns the number of files that podrun writes for the pod's volumes.
func (p Plan) FileCount() int {
	n := 0
	for _, v := range p.Volumes {
		if v.Setup.Kind == SetupFiles {
			n += len(v.Setup.Files.Files)
		}
	}
	return n
}

// source is a ConfigMap or Secret whose keys become files of a volume.
type source struct {
	taken *int   // number of files of the pod so far
	word  string // configmap or secret
	// the kubelet's term for a key of such an object, for example "config key"
	key      string
	name     string
	data     map[string][]byte // nil if the object does not exist
	optional *bool
	items    []corev1.KeyToPath
	// the names of credentials by key, which are not in data
	credentials map[string]string
}

func (in Input) configMapSource(name string, items []corev1.KeyToPath, optional *bool) source {
	s := source{taken: in.taken, word: "configmap", key: "config key", name: name, items: items, optional: optional}
	if cm := in.ConfigMaps[name]; cm != nil {
		s.data = in.read[cm]
		if s.data == nil {
			s.data = configMapFiles(cm)
			in.read[cm] = s.data
		}
	}
	return s
}

func configMapFiles(cm *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, cm.BinaryData)
	return data
}

func (in Input) secretSource(name string, items []corev1.KeyToPath, optional *bool) source {
	s := source{taken: in.taken, word: "secret", key: "secret key", name: name, items: items, optional: optional}
	if secret := in.Secrets[name]; secret != nil && *in.taken <= maxFiles {
		s.data, s.credentials = secretFiles(secret), credential.Of(secret)
	}
	return s
}

func secretFiles(secret *corev1.Secret) map[string][]byte {
	if len(secret.StringData) == 0 && secret.Data != nil {
		// Defaulting has already merged stringData.
		return secret.Data
	}
	data := make(map[string][]byte, len(secret.Data)+len(secret.StringData))
	maps.Copy(data, secret.Data)
	for k, v := range secret.StringData {
		data[k] = []byte(v)
	}
	return data
}

// take adds the files of an object: the keys that the items of the volume source select or, without
// items, all keys. It returns a problem if a key or an object is missing and not optional. The
// field path of the problem is relative to the volume's.
func (p *payload) take(at string, s source) problem.List {
	if *s.taken > maxFiles {
		return nil // already refused because of the number of files
	}
	optional := s.optional != nil && *s.optional
	if s.data == nil {
		if optional {
			return nil
		}
		return problem.List{missing(at, fmt.Sprintf("%s %q not found", s.word, s.name), "add it to the input, or set optional: true")}
	}
	var out problem.List
	items, field := s.items, func(i int) string { return join(at, fmt.Sprintf("items[%d]", i)) }
	if len(items) == 0 {
		items = allItems(s.data, s.credentials)
		field = func(int) string { return at }
	}
	p.files = slices.Grow(p.files, len(items))
	for i, item := range items {
		data, ok := s.data[item.Key]
		sealed := s.credentials[item.Key]
		if !ok && sealed == "" {
			if !optional {
				out = append(out, missing(join(field(i), "key"), fmt.Sprintf("%s %q: references non-existent %s: %s", s.word, s.name, s.key, item.Key),
					"correct the key, or set optional: true"))
			}
			continue
		}
		if *s.taken++; *s.taken > maxFiles {
			return append(out, missing(field(i), fmt.Sprintf("with this source, the pod's volumes have more than %d files", maxFiles), "in items, list only the keys that the pod needs"))
		}
		if err := p.add(item.Path, item.Mode, data); err != nil {
			out = append(out, missing(join(field(i), "path"), err.Error(), ""))
		} else {
			p.files[len(p.files)-1].Credential = sealed
		}
	}
	return out
}

// allItems selects all keys. The name of each file is its key.
func allItems(data map[string][]byte, credentials map[string]string) []corev1.KeyToPath {
	items := make([]corev1.KeyToPath, 0, len(data)+len(credentials))
	for key := range credentials {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	for key := range data {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	slices.SortFunc(items, func(a, b corev1.KeyToPath) int { return strings.Compare(a.Key, b.Key) })
	return items
}

// missing returns a problem of the manifest. The argument field is relative to the volume's field.
func missing(field, message, hint string) problem.Problem {
	return problem.Problem{Field: field, Reason: "FailedMount", Message: message, Hint: hint, Kind: problem.Manifest}
}

func join(field, below string) string {
	if field == "" {
		return below
	}
	return field + "." + below
}
