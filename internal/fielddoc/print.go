package fielddoc

import (
	"io"
	"strings"
)

// width is the line width of kubectl's text, in characters.
const width = 80

// Print writes the documentation of a field in the format of kubectl explain. It also writes
// what podrun does with the field.
func Print(w io.Writer, f Field) error {
	p := &printer{}
	p.head(f)
	if fields := f.Fields(); len(fields) > 0 {
		p.line("FIELDS:")
		for _, one := range fields {
			p.line("  " + one.Name + "\t<" + one.Type + ">" + required(one))
			p.wrapped(4, orNoText(one.Doc))
			if c := one.claim(); c != (Claim{}) && c != (Claim{Class: Supported}) && c != f.claim() {
				p.wrapped(4, "podrun: "+c.String())
			}
			p.line("")
		}
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// maxDepth limits the depth of PrintAll, in case a type of the API contains itself in the
// future.
const maxDepth = 32

// PrintAll is like Print, but lists the fields recursively and without their documentation.
func PrintAll(w io.Writer, f Field) error {
	p := &printer{}
	p.head(f)
	p.line("FIELDS:")
	p.fields(f, 1)
	_, err := io.WriteString(w, p.text.String())
	return err
}

type printer struct{ text strings.Builder }

// head writes the first lines of the output, which are the same for Print and PrintAll.
func (p *printer) head(f Field) {
	if f.kind.Group != "" {
		p.line("GROUP:      " + f.kind.Group)
	}
	p.line("KIND:       " + f.kind.Name)
	p.line("VERSION:    " + f.kind.Version)
	p.line("")
	if f.Name != "" {
		p.line("FIELD: " + f.Name + " <" + f.Type + ">" + required(f))
		p.line("")
	}
	p.line("DESCRIPTION:")
	p.texts(f)
	if c := f.claim(); c != (Claim{}) {
		p.line("PODRUN:")
		p.wrapped(4, c.String())
		p.line("")
	}
}

func (p *printer) line(s string) { p.text.WriteString(s + "\n") }

// texts writes the documentation of a field and of its type.
func (p *printer) texts(f Field) {
	p.wrapped(4, orNoText(strings.TrimSpace(f.Doc+"\n"+f.TypeDoc)))
	p.line("")
}

func orNoText(s string) string {
	if s == "" {
		return "<empty>"
	}
	return s
}

func required(f Field) string {
	if f.Required {
		return " -required-"
	}
	return ""
}

// fields writes the fields inside a field, one per line, indented by depth.
func (p *printer) fields(f Field, depth int) {
	for _, one := range f.Fields() {
		class := ""
		if c := one.claim().Class; c != "" && c != Supported {
			class = " (podrun: " + c + ")"
		}
		p.line(strings.Repeat("  ", depth) + one.Name + "\t<" + one.Type + ">" + required(one) + class)
		if depth < maxDepth {
			p.fields(one, depth+1)
		}
	}
}

// wrapped writes a text in lines of up to width characters. A word that is longer than that is on a
// line of its own.
func (p *printer) wrapped(indent int, text string) {
	space := strings.Repeat(" ", indent)
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := space
		for _, word := range strings.Fields(paragraph) {
			if line != space && len(line)+1+len(word) > width {
				p.line(line)
				line = space
			}
			if line != space {
				line += " "
			}
			line += word
		}
		if line != space {
			p.line(line)
		}
	}
}
