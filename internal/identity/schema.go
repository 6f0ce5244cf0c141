package identity

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Schema is the newest version of the state files that this podrun reads: those of a
// pod's directory and the image back-off. It is raised when a podrun of before
// would misread a file or lose something of it; a new optional field needs no new
// version. Files without a version, of podruns before there was one, are version
// 0 and have the same content.
const Schema = 2

// Versions of which a file is written: that of its content, so that a podrun of before
// reads what it can.
const (
	plainSchema   = 1
	secretsSchema = 2 // a checkpoint whose Secrets are in memory
)

// The first lines of a state file are comments in YAML, and distinguished at a
// glance from the content of every other file.
const (
	// CheckpointHead is how a checkpoint begins, followed by the pod's
	// namespace/name: enough to find a pod without parsing every file.
	CheckpointHead = stateHead + "pod "

	stateHead   = "# podrun "
	schemaHead  = stateHead + "schema "
	secretsHead = stateHead + "secrets "
)

// AddSchema gives a state file's content its version.
func AddSchema(data []byte) []byte { return addSchema(plainSchema, data) }

func addSchema(version int, data []byte) []byte {
	return append([]byte(schemaHead+strconv.Itoa(version)+"\n"), data...)
}

// AddSecretsToken gives a checkpoint without Secrets its version, and the name of the
// file in memory that has them.
func AddSecretsToken(token string, data []byte) []byte {
	return addSchema(secretsSchema, append([]byte(secretsHead+token+"\n"), data...))
}

// CutSecretsToken splits the content of a checkpoint, without its version, into the name
// of the file that has its Secrets and the rest. Without such a name, token is empty and
// all of it is the rest.
func CutSecretsToken(content []byte) (token string, rest []byte) {
	line, after, ended := bytes.Cut(content, []byte("\n"))
	text, ok := bytes.CutPrefix(line, []byte(secretsHead))
	if !ok || !ended {
		return "", content
	}
	return string(text), after
}

// HeadPod reads the namespace and name of a checkpoint's head. They are in every
// version.
func HeadPod(data []byte) (namespace, name string, ok bool) {
	line, _, ended := bytes.Cut(data, []byte("\n"))
	text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(CheckpointHead))
	namespace, name, named := strings.Cut(string(text), "/")
	return namespace, name, ok && named && ended
}

// CutSchema splits a state file into its content and its version, which is on the
// first line, or on the one after a head of the file's own (a checkpoint's names
// the pod). Where there is none the file is of version 0 and all of it is content.
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

// SchemaError says that a newer podrun wrote a state file: this one must not
// change the pod, whose state it may misread.
type SchemaError struct {
	File    string
	Version int
}

// Error names the file and the versions.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema version %d, this podrun supports versions up to %d", e.File, e.Version, Schema)
}

// CheckSchema is the error of a version that this podrun does not know; nil
// where it does.
func CheckSchema(file string, version int) error {
	if version <= Schema {
		return nil
	}
	return &SchemaError{File: file, Version: version}
}
