package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/podrun/podrun/manifest/input"
)

// split splits a source into its documents, with the line at which each begins. It omits empty
// documents. It splits only where YAML does: at a line of "---" or "...", which cannot be part of a
// block scalar. JSON objects may also follow each other without a separator, as in the output of
// jq.
func split(source input.Source) ([]*document, error) {
	text, err := utf8Text(source.Data)
	if err != nil {
		return nil, err
	}
	var docs []*document
	for _, c := range chunks(text) {
		first := documentStart(c.text)
		if first < 0 {
			continue
		}
		doc := &document{file: source.Name, offset: c.line - 1, first: c.line + bytes.Count(c.text[:first], newline), text: c.text}
		docs = append(docs, splitJSON(doc, first)...)
		if len(docs) > maxDocuments {
			return nil, fmt.Errorf("more than %d documents", maxDocuments)
		}
	}
	return docs, nil
}

var newline = []byte("\n")

// utf8Text removes the byte order mark at the beginning of each document (YAML 1.2, section 5.2). It
// converts UTF-16, which PowerShell's ">" writes, to UTF-8.
func utf8Text(data []byte) ([]byte, error) {
	const mark = "\ufeff"
	text, err := fromUTF16(data)
	text = bytes.TrimPrefix(text, []byte(mark))
	if bytes.Contains(text, []byte("\n"+mark)) {
		text = bytes.ReplaceAll(text, []byte("\n"+mark), newline)
	}
	return text, err
}

// fromUTF16 converts a text that begins with a byte order mark of UTF-16. It returns any other text
// unchanged.
func fromUTF16(data []byte) ([]byte, error) {
	little, big := bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff})
	if !little && !big {
		return data, nil
	}
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("the text is marked as UTF-16 but has an odd number of bytes")
	}
	units := make([]uint16, 0, len(data)/2-1)
	for i := 2; i < len(data); i += 2 {
		if little {
			units = append(units, uint16(data[i])|uint16(data[i+1])<<8)
		} else {
			units = append(units, uint16(data[i+1])|uint16(data[i])<<8)
		}
	}
	return []byte(string(utf16.Decode(units))), nil
}

// chunk is the text between two separators and the line at which it begins.
type chunk struct {
	text []byte
	line int
}

// chunks splits a text at the document markers "---" and "...". Content after "---" on the same line belongs to the
// document that follows, and so do directives (%YAML 1.2) before the "---".
func chunks(text []byte) []chunk {
	var out []chunk
	cur := chunk{line: 1}
	start := 0
	flush := func(end, next, nextLine int) {
		cur.text = text[start:end]
		out = append(out, cur)
		start, cur = next, chunk{line: nextLine}
	}
	line := 0
	for pos := 0; pos < len(text); {
		line++
		end := len(text)
		if i := bytes.IndexByte(text[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		switch {
		case isMarker(text[pos:end], "---") && !onlyDirectives(text[start:pos]):
			flush(pos, pos, line)
		case isMarker(text[pos:end], "..."):
			flush(end, end, line+1)
		}
		pos = end
	}
	flush(len(text), len(text), line)
	return out
}

// isMarker reports whether a line is a separator. A separator is the marker, followed by white
// space or nothing.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// onlyDirectives reports whether text consists of at least one directive, and comments. The next
// "---" then begins the document of these directives; it does not end a document.
func onlyDirectives(text []byte) bool {
	first := firstContent(text)
	if first < 0 || text[first] != '%' {
		return false
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// documentStart returns the offset at which a document's content begins, after directives and
// the separator. If the document is empty, it returns -1.
func documentStart(text []byte) int {
	first := firstContent(text)
	if first < 0 || text[first] != '%' {
		return first
	}
	marker := bytes.Index(text, []byte("\n---"))
	if marker < 0 {
		return first
	}
	if behind := firstContent(text[marker+1:]); behind >= 0 {
		return marker + 1 + behind
	}
	return -1
}

// firstContent returns the offset of the first byte that is not part of white space, a comment
// or a separator. It returns -1 if there is none.
func firstContent(text []byte) int {
	pos := 0
	for line := range bytes.Lines(text) {
		rest := line
		if isMarker(line, "---") {
			rest = line[3:]
		}
		if trimmed := bytes.TrimLeft(rest, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '#' {
			return pos + len(line) - len(trimmed)
		}
		pos += len(line)
	}
	return -1
}

// splitJSON splits a document that consists of several JSON values. If a part is not JSON, it
// returns the whole document unchanged, as YAML.
func splitJSON(doc *document, first int) []*document {
	if c := doc.text[first]; c != '{' && c != '[' {
		return []*document{doc}
	}
	dec := json.NewDecoder(bytes.NewReader(doc.text[first:]))
	var docs []*document
	line, counted := doc.offset, 0
	for dec.More() {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return []*document{doc}
		}
		if len(docs) > maxDocuments {
			return docs
		}
		begin := first + int(dec.InputOffset()) - len(raw)
		line, counted = line+bytes.Count(doc.text[counted:begin], newline), begin
		docs = append(docs, &document{file: doc.file, offset: line, first: line + 1, text: raw, json: raw})
	}
	if len(docs) == 0 {
		return []*document{doc}
	}
	return docs
}
