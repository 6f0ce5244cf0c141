package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/manifest/weigh"
)

// loader collects the objects and the problems of one call of Load.
type loader struct {
	opts     Options
	objects  *Objects
	problems problem.List
	seen     map[string]place // by "Kind namespace/name"
	// imagesUsed are the keys of opts.Images that a container has matched.
	imagesUsed map[string]bool
	// documents, values and containers are the totals of all sources so far. full is true if a limit is exceeded;
	// Load then ignores the rest of the input.
	documents, values, containers int
	full                          bool
}

// Load decodes, defaults and validates the sources. The list contains all problems, in the
// order of the input. It includes warnings about changes that podrun makes to an object. The
// caller must use the objects only if there are no errors. Load is pure. It quickly refuses
// hostile input.
func Load(sources []input.Source, opts Options) (*Objects, problem.List) {
	l := &loader{opts: opts, objects: newObjects(), seen: map[string]place{}, imagesUsed: map[string]bool{}}
	if l.opts.Namespace == "" {
		l.opts.Namespace = "default"
	}
	switch l.opts.Validate {
	case "":
		l.opts.Validate = Strict
	case Strict, Warn, Ignore:
	default:
		l.add(problem.Problem{Reason: "FieldValueNotSupported",
			Message: fmt.Sprintf("unknown validation mode %q", opts.Validate),
			Hint:    "use strict, warn or ignore"})
		return l.objects, l.problems
	}
	for _, s := range sources {
		if !l.full {
			l.source(s)
		}
	}
	if !opts.Controllers {
		l.separateJobs()
	}
	if len(l.objects.Skipped) > 0 {
		l.add(skippedWarning(l.objects.Skipped))
	}
	if len(l.objects.Pods)+len(l.objects.Workloads)+len(l.objects.Services)+len(l.objects.Jobs)+len(l.objects.CronJobs) == 0 && len(l.problems.Errors()) == 0 {
		l.add(noPod(sources, l.objects))
	}
	if len(l.problems.Errors()) == 0 {
		l.problems = append(l.problems, l.unusedImages()...)
	}
	return l.objects, bounded(l.problems)
}

// bounded truncates a long list, because hostile input can cause a million problems.
func bounded(all problem.List) problem.List {
	if len(all) <= maxProblems {
		return all
	}
	rest := all[maxProblems:]
	return append(all[:maxProblems:maxProblems], problem.Problem{
		Reason: "TooManyProblems", Message: fmt.Sprintf("and %d more problems", len(rest)), Warning: len(rest.Errors()) == 0})
}

func (l *loader) add(p problem.Problem) { l.problems = append(l.problems, p) }

func (l *loader) source(s input.Source) {
	if isBinary(s.Data) {
		l.add(problem.Problem{File: s.Name, Reason: "InvalidYAML",
			Message: "this is a binary file, not a manifest", Hint: binaryHint(s.Name, s.Data)})
		return
	}
	docs, err := split(s)
	if err != nil {
		l.add(problem.Problem{File: s.Name, Reason: "InvalidYAML", Message: err.Error()})
		return
	}
	for _, doc := range docs {
		if l.documents++; l.documents > maxDocuments {
			l.stop(doc, "more than %d documents", maxDocuments)
		}
		if l.full {
			return
		}
		before := len(l.problems)
		l.document(doc)
		// Sort by line: all of them are in the same file.
		l.problems[before:].Sort()
		doc.root = nil
		doc.parsed = false
	}
}

// stop refuses an input that exceeds a limit. Load then ignores the rest of the input.
func (l *loader) stop(doc *document, format string, args ...any) {
	p := doc.tooLarge(format, args...)
	p.Message = "the input has " + p.Message
	p.Hint = "split the input, and apply the parts one by one"
	l.add(p)
	l.full = true
}

func (l *loader) document(doc *document) {
	if refused := doc.textBounds(); len(refused) > 0 {
		l.problems = append(l.problems, refused...)
		return
	}
	raw, twice, syntax := doc.toJSON()
	if len(syntax) > 0 {
		l.problems = append(l.problems, syntax...)
		return
	}
	values, refused := doc.jsonBounds(raw)
	if refused != nil {
		l.add(*refused)
		return
	}
	if l.values += values; l.values > maxAllValues {
		l.stop(doc, "more than %d values", maxAllValues)
		return
	}
	if joined := joinedObjects(doc, twice); len(joined) > 0 && l.opts.Validate != Warn && l.opts.Validate != Ignore {
		// Otherwise, the fields of two objects would be reported as those of one.
		l.problems = append(l.problems, joined...)
		return
	}
	l.problems = append(l.problems, duplicateProblems(doc, twice, l.opts.Validate)...)
	l.object(item{doc: doc, raw: raw}, 0)
}

// ReasonNoPod is the reason of the problem that an input contains no pod. HintNoPod is its hint.
const (
	ReasonNoPod = "NoPod"
	HintNoPod   = "add a Pod, or a workload with a pod template such as a Deployment or a Job"
)

// noPod returns the problem of an input without a pod.
func noPod(sources []input.Source, objects *Objects) problem.Problem {
	p := problem.Problem{Reason: ReasonNoPod, Message: "no objects in input", Hint: HintNoPod}
	if len(sources) == 1 {
		p.File = sources[0].Name
	}
	var has []string
	for _, k := range []struct {
		kind string
		n    int
	}{
		{"ConfigMap", len(objects.ConfigMaps)}, {"Secret", len(objects.Secrets)},
		{"PersistentVolumeClaim", len(objects.Claims)}, {"PersistentVolume", len(objects.Volumes)},
		{"RuntimeClass", len(objects.RuntimeClasses)}, {"PriorityClass", len(objects.PriorityClasses)},
	} {
		if k.n > 0 {
			has = append(has, fmt.Sprintf("%d %s", k.n, k.kind))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(objects.Skipped)) {
		has = append(has, fmt.Sprintf("%d %s", len(objects.Skipped[kind]), kind))
	}
	if len(has) > 0 {
		p.Message = "no pod in the input, only " + strings.Join(has, ", ")
	}
	return p
}

// object processes one object according to its kind.
func (l *loader) object(it item, depth int) {
	h, ok := readHeader(it.raw)
	if !ok {
		if string(it.raw) == "null" {
			return
		}
		l.add(it.problem("", "", "InvalidObject", "expected an object with apiVersion and kind, got "+kindOf(it.raw)))
		return
	}
	if h.Kind == "" {
		p := it.problem("", "kind", "FieldValueRequired", "kind is missing")
		p.Hint = "every object begins with apiVersion and kind, such as v1 and Pod"
		if format, hint := otherFormat(it.doc.file, it.raw); format != "" {
			p.Message = "this is " + format + ", not a Kubernetes object"
			p.Hint = hint
		}
		l.add(p)
		return
	}
	if isList(h.Kind) {
		l.list(it, h, depth)
		return
	}
	k, ok := l.kind(it, h)
	if !ok {
		return
	}
	// For some validations, the time is proportional to the square of the object's size.
	if len(it.raw) > maxDocument {
		l.add(it.problem(h.object(), "", "TooLarge", fmt.Sprintf("larger than %d MiB, the limit of an API server", maxDocument>>20)))
		return
	}
	if values, _ := weigh.JSON(it.raw); values > maxObjectValues {
		l.add(it.problem(h.object(), "", "TooLarge", fmt.Sprintf("has more than %d values", maxObjectValues)))
		return
	}
	k.take(l, it, h)
}

// list processes the entries of a List, or of a list of one kind such as PodList, whose entries may omit their kind.
func (l *loader) list(it item, h header, depth int) {
	var list struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   json.RawMessage   `json:"metadata,omitempty"`
		Items      []json.RawMessage `json:"items"`
	}
	if depth >= maxListDepth {
		l.add(it.problem(h.Kind, "items", "InvalidObject", "too many lists within lists"))
		return
	}
	if !l.decode(it, h.Kind, &list) {
		return
	}
	if len(list.Items) > maxDocuments {
		l.add(it.problem(h.Kind, "items", "FieldValueTooMany", fmt.Sprintf("more than %d items", maxDocuments)))
		return
	}
	of := strings.TrimSuffix(h.Kind, "List")
	for i, raw := range list.Items {
		entry := item{doc: it.doc, prefix: fmt.Sprintf("%sitems[%d].", it.prefix, i), raw: raw}
		if of != "" {
			entry.raw = withKind(raw, list.APIVersion, of)
		}
		l.object(entry, depth+1)
	}
}

// withKind adds kind and apiVersion to an entry of a typed list that lacks them.
func withKind(raw json.RawMessage, apiVersion, kind string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil || (fields["kind"] != nil && fields["apiVersion"] != nil) {
		return raw
	}
	for name, value := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		if fields[name] == nil {
			// Marshaling a string cannot fail.
			fields[name], _ = json.Marshal(value)
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return raw
	}
	return out
}

// claim registers an object with this kind and name. If another object already has them, it
// reports that.
func (l *loader) claim(it item, kind, name string) bool {
	key := kind + " " + name
	if first, ok := l.seen[key]; ok {
		first := first.position()
		p := it.problem(key, "metadata.name", "FieldValueDuplicate", "defined twice"+secondOf(first, it.doc.file))
		p.Hint = "rename one of them"
		if first.File == it.doc.file && first.Line == it.line("metadata.name") {
			p = it.problem(key, "metadata.name", "FieldValueDuplicate", "the input contains this file twice")
			p.Hint = "name it once"
		}
		l.add(p)
		return false
	}
	l.seen[key] = it.place("metadata.name")
	return true
}

// place is the definition of an object. A place has no line, because the line requires the document's tree, and only a
// problem requires the line: reading 50 ConfigMaps of 100 keys would take a quarter longer.
type place struct {
	doc           *document
	prefix, field string
}

func (i item) place(field string) place { return place{i.doc, i.prefix, field} }

func (p place) position() Position {
	return Position{File: p.doc.file, Line: item{doc: p.doc, prefix: p.prefix}.line(p.field)}
}

func (i item) position() Position { return i.place("").position() }

func secondOf(first Position, file string) string {
	if first.File == file {
		return firstAt(first.Line)
	}
	return fmt.Sprintf(" (first at %s:%d)", first.File, first.Line)
}

func firstAt(line int) string { return fmt.Sprintf(" (first at line %d)", line) }
