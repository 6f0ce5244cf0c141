package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSums limits the size of a list, in bytes.
const MaxSums = 1 << 20

// The beginnings of the first two lines of a list.
const (
	serialLine = "# serial "
	sourceLine = "# source "
)

// Sums is a list of files with their digests.
type Sums struct {
	Serial uint64 // at least 1
	Source string // the only source for which the list is valid; "" for any source
	Files  map[string][sha256.Size]byte
	Digest [sha256.Size]byte // of the list
}

// ParseSums parses the output of sha256sum(1), with the serial in its first line.
func ParseSums(data []byte) (Sums, error) {
	if len(data) > MaxSums {
		return Sums{}, fmt.Errorf("larger than %d KiB", MaxSums>>10)
	}
	s := Sums{Files: map[string][sha256.Size]byte{}, Digest: sha256.Sum256(data)}
	text, ended := strings.CutSuffix(string(data), "\n")
	if !ended {
		return Sums{}, errors.New("the last line has no end")
	}
	lines := strings.Split(text, "\n")
	total := len(lines)
	serial, ok := strings.CutPrefix(lines[0], serialLine)
	number, err := strconv.ParseUint(serial, 10, 63)
	if !ok || err != nil || strconv.FormatUint(number, 10) != serial || number == 0 {
		return Sums{}, errors.New("the first line is not \"# serial N\", with a number above 0")
	}
	s.Serial, lines = number, lines[1:]
	if len(lines) > 0 && strings.HasPrefix(lines[0], sourceLine) {
		s.Source, lines = lines[0][len(sourceLine):], lines[1:]
		if s.Source == "" {
			return Sums{}, errors.New("the source of the second line is empty")
		}
	}
	for i, line := range lines {
		name, digest, err := parseSum(line)
		if err == nil {
			if _, twice := s.Files[name]; twice {
				err = errors.New("the file is listed twice")
			}
		}
		if err != nil {
			return Sums{}, fmt.Errorf("line %d: %w", total-len(lines)+i+1, err)
		}
		s.Files[name] = digest
	}
	return s, nil
}

// parseSum parses a line: a digest, a space, a space or an asterisk, and a name.
func parseSum(line string) (name string, digest [sha256.Size]byte, err error) {
	const at = 2 * sha256.Size
	if len(line) < at+3 || line[at] != ' ' || line[at+1] != ' ' && line[at+1] != '*' || strings.ToLower(line[:at]) != line[:at] {
		return "", digest, errors.New("not a line of sha256sum")
	}
	if _, err := hex.Decode(digest[:], []byte(line[:at])); err != nil {
		return "", digest, errors.New("not a line of sha256sum")
	}
	if name = line[at+2:]; !IsFileName(name) {
		return "", digest, errors.New("the name is not that of a file in the same directory")
	}
	return name, digest, nil
}

// maxName is the maximum length of a file's name, in bytes (NAME_MAX).
const maxName = 255

// IsFileName reports whether a name is that of a file in the same directory, and can be printed.
func IsFileName(name string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return name != "" && name != "." && name != ".." && len(name) <= maxName && path.Base(name) == name && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unprintable) && !strings.Contains(name, `\`)
}

// Check checks the content of a file of the list.
func (s Sums) Check(name string, digest [sha256.Size]byte) error {
	want, listed := s.Files[name]
	switch {
	case !listed:
		return errors.New("it is not listed")
	case digest != want:
		return errors.New("its content differs from the listed one")
	}
	return nil
}
