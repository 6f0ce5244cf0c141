package identity

import (
	"bytes"
	"strconv"
	"strings"
)

// Schema is the newest version of the state files that this podrun can read. State files are those
// in a pod's directory and those of the image back-off. It must be incremented if an older podrun
// would misread a file or lose a part of it. A new optional field does not require a new version.
// Older versions of podrun wrote files without a version. These are version 0, and have the same
// content as version 1.
const Schema = 3

// These are the schema versions that podrun writes. A file gets the lowest version that fits its content, so
// that older versions of podrun can read as many files as possible.
const (
	// PlainSchema is the version of most files.
	PlainSchema = 1
	// secretsSchema is the version of a checkpoint whose Secrets are in memory.
	secretsSchema = 2
)

// StateSchema is the first version of a pod's state file (Layout.State) that also contains the
// probe results and a resize in progress.
const StateSchema = 3

// These are the beginnings of the first lines of a state file. The lines are YAML comments, and
// distinguish a state file from other files.
const (
	// CheckpointHead is the beginning of a checkpoint. The pod's namespace/name follows, so that
	// podrun can find a pod without parsing every checkpoint.
	CheckpointHead = stateHead + "pod "

	stateHead   = "# podrun "
	schemaHead  = stateHead + "schema "
	secretsHead = stateHead + "secrets "
)

// AddSchema prepends a version to the content of a state file.
func AddSchema(version int, data []byte) []byte {
	return append([]byte(schemaHead+strconv.Itoa(version)+"\n"), data...)
}

// AddSecretsToken prepends two lines to a checkpoint without Secrets: the version, and the name of
// the file in memory that contains the Secrets.
func AddSecretsToken(token string, data []byte) []byte {
	return AddSchema(secretsSchema, append([]byte(secretsHead+token+"\n"), data...))
}

// CutSecretsToken splits the content of a checkpoint whose version line CutSchema has already
// removed. It returns the name of the file with the Secrets, and the rest. If the content has no
// such name, token is "" and rest is the whole content.
func CutSecretsToken(content []byte) (token string, rest []byte) {
	line, after, ended := bytes.Cut(content, []byte("\n"))
	text, ok := bytes.CutPrefix(line, []byte(secretsHead))
	if !ok || !ended {
		return "", content
	}
	return string(text), after
}

// HeadPod reads the namespace and the name from the head of a checkpoint. The head is the same
// in all versions.
func HeadPod(data []byte) (namespace, name string, ok bool) {
	line, _, ended := bytes.Cut(data, []byte("\n"))
	text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(CheckpointHead))
	namespace, name, named := strings.Cut(string(text), "/")
	return namespace, name, ok && named && ended
}

// CutSchema splits a state file into its content and its version. The version is on the first line.
// If the first line is the head of a checkpoint, which names the pod, the version is on the second
// line. If neither line has a version, the version is 0 and the whole file is content.
func CutSchema(data []byte) (content []byte, version int) {
	rest := data
	for range 2 {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if text, ok := bytes.CutPrefix(line, []byte(schemaHead)); ok && ended {
			if version, err := strconv.Atoi(string(text)); err == nil && version >= 0 {
				return after, version
			}
		}
		if !bytes.HasPrefix(line, []byte(stateHead)) {
			break
		}
		rest = after
	}
	return data, 0
}
