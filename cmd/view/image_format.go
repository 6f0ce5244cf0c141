package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/distribution/reference"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/imagestore"
)

// imageRow is one name of an image, as the templates of `docker images --format` see it.
type imageRow struct {
	ID, Repository, Tag, Digest, Size string
}

// imageHeadings are docker's headings of the fields.
var imageHeadings = imageRow{"IMAGE ID", "REPOSITORY", "TAG", "DIGEST", "SIZE"}

// NoName is docker's text for an absent repository, tag or digest.
const NoName = "<none>"

// ImageRows returns a row for each name of each image, and one for an image without names.
func ImageRows(images []imagestore.Image, noTrunc bool) []imageRow {
	var rows []imageRow
	for _, i := range images {
		digests := map[string]string{}
		row := imageRow{ShownID(i.ID, noTrunc), NoName, NoName, NoName, humanSize(i.Size)}
		for _, name := range i.Digests {
			if ref, err := reference.ParseNormalizedNamed(name); err == nil {
				row.Repository = reference.FamiliarName(ref)
				if digested, ok := ref.(reference.Digested); ok {
					row.Digest = digested.Digest().String()
					digests[row.Repository] = row.Digest
				}
			}
		}
		if len(i.Names) == 0 {
			rows = append(rows, row)
		}
		for _, name := range i.Names {
			row.Repository = name
			row.Tag = NoName
			row.Digest = NoName
			if ref, err := reference.ParseNormalizedNamed(name); err == nil {
				row.Repository = reference.FamiliarName(ref)
				if tagged, ok := ref.(reference.Tagged); ok {
					row.Tag = tagged.Tag()
				}
			}
			if digest, ok := digests[row.Repository]; ok {
				row.Digest = digest
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// ShownID returns an ID as docker prints it: its first 12 digits, or all with --no-trunc.
func ShownID(id string, noTrunc bool) string {
	if noTrunc {
		return id
	}
	return fmt.Sprintf("%.12s", strings.TrimPrefix(id, "sha256:"))
}

// humanSize formats a size as docker does: three digits and a decimal unit.
func humanSize(bytes uint64) string {
	size, units := float64(bytes), []string{"B", "kB", "MB", "GB", "TB"}
	for size >= 1000 && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	return fmt.Sprintf("%.3g%s", size, units[0])
}

// ImageFormat is a parsed --format.
type ImageFormat struct {
	template *template.Template
	table    bool // with headings, in columns
}

// templateFunctions are the functions of docker's templates.
var templateFunctions = template.FuncMap{
	"json": func(v any) (string, error) {
		data, err := json.Marshal(v)
		return string(data), err
	},
	"split": strings.Split,
	"join":  strings.Join,
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
	"truncate": func(text string, n int) string {
		return string([]rune(text)[:min(max(n, 0), len([]rune(text)))])
	},
}

// ParseImageFormat parses `json`, `table`, `table TEMPLATE`, or a template as docker accepts
// it.
func ParseImageFormat(format string) (*ImageFormat, error) {
	text, table := strings.CutPrefix(format, "table")
	text = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(strings.TrimSpace(text))
	switch {
	case table && text == "":
		text = "{{.Repository}}\t{{.Tag}}\t{{.ID}}\t{{.Size}}"
	case text == "json":
		text = "{{json .}}"
	}
	t, err := template.New("").Funcs(templateFunctions).Parse(text)
	if err == nil {
		err = t.Execute(io.Discard, imageHeadings)
	}
	if err != nil {
		return nil, formatError(format, err)
	}
	return &ImageFormat{t, table}, nil
}

// formatError returns the usage error for a template.
func formatError(format string, err error) error {
	e := &problem.Error{
		Kind:   problem.Usage,
		Object: "--format",
		Err:    err,
		Hint:   `write the fields as in --format '{{.Repository}}:{{.Tag}}' or 'table {{.ID}}\t{{.Size}}'`,
	}
	if exec, ok := errors.AsType[template.ExecError](err); ok {
		_, field, _ := strings.Cut(exec.Err.Error(), "evaluate field ")
		if field, _, ok = strings.Cut(field, " "); ok {
			var fields []string
			for f := range reflect.TypeFor[imageRow]().Fields() {
				fields = append(fields, "."+f.Name)
			}
			e.Err = fmt.Errorf("the runtime's list of images has no field .%s", field)
			e.Hint = "use " + strings.Join(fields, ", ")
		}
	}
	return e
}

// Print writes one line for each name of an image.
func (f *ImageFormat) Print(w io.Writer, rows []imageRow) error {
	var out bytes.Buffer
	var to io.Writer = &out
	columns := tabwriter.NewWriter(&out, 10, 1, 3, ' ', 0) // docker's widths
	if f.table {
		to, rows = columns, append([]imageRow{imageHeadings}, rows...)
	}
	for _, row := range rows {
		var line bytes.Buffer
		if err := f.template.Execute(&line, row); err != nil {
			return formatError("", err)
		}
		fmt.Fprintln(to, line.String())
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// SelectImages returns the images with a name that matches REPOSITORY[:TAG], and drops their
// other names. As in docker, the pattern may contain wildcards.
func SelectImages(images []imagestore.Image, pattern string) ([]imagestore.Image, error) {
	if ref, err := reference.ParseNormalizedNamed(pattern); err == nil {
		pattern = reference.FamiliarString(ref)
	}
	var out []imagestore.Image
	for _, i := range images {
		var names []string
		for _, name := range i.Names {
			ref, err := reference.ParseNormalizedNamed(name)
			if err != nil {
				continue
			}
			matches, err := reference.FamiliarMatch(pattern, ref)
			if err != nil {
				return nil, problem.UsageError(fmt.Errorf("%q is not the name of an image: %w", pattern, err), "use 'podrun image ls REPOSITORY[:TAG]'")
			}
			if matches {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			i.Names = names
			out = append(out, i)
		}
	}
	return out, nil
}
