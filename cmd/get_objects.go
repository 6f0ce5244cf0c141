package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
)

// selection contains the objects that the arguments of get select: all objects of some kinds, or named objects.
type selection struct {
	kinds []string // in the order of the arguments
	refs  []lookup.Ref
}

// parseSelection parses the arguments of get that name types other than pods: TYPE, TYPE,TYPE,
// all, TYPE NAME... or TYPE/NAME. It returns false if the arguments select only pods.
func parseSelection(given []string) (s selection, ok bool, err error) {
	if len(given) == 0 {
		return s, false, nil
	}
	if strings.Contains(given[0], "/") {
		for _, word := range given {
			ref := lookup.Ref{Kind: apikind.Pod, Name: word}
			if kind, name, typed := strings.Cut(word, "/"); typed {
				if ref = (lookup.Ref{Kind: kindOf(kind), Name: name}); ref.Kind == "" || name == "" || strings.Contains(name, "/") {
					return selection{}, false, nil // podRefs reports it
				}
			}
			s.refs = append(s.refs, ref)
		}
		return s, slices.ContainsFunc(s.refs, func(r lookup.Ref) bool { return r.Kind != apikind.Pod }), nil
	}
	if s.kinds, err = kindsOf(given[0]); err != nil || !slices.ContainsFunc(s.kinds, func(k string) bool { return k != apikind.Pod }) {
		return selection{}, false, err
	}
	if len(given) == 1 {
		return s, true, nil
	}
	for _, name := range given[1:] {
		if strings.Contains(name, "/") {
			return selection{}, false, grammar.NamesError(fmt.Errorf("%q already has a type", name), "omit "+shellword.Quote(given[0])+", or the type in "+shellword.Quote(name))
		}
		for _, kind := range s.kinds {
			s.refs = append(s.refs, lookup.Ref{Kind: kind, Name: name})
		}
	}
	s.kinds = nil
	return s, true, nil
}

// kindOf returns the kind of a type's name, Pod included, or "".
func kindOf(word string) string {
	if grammar.IsPodType(word) {
		return apikind.Pod
	}
	if t := apikind.Of(word); t != nil {
		return t.Kind
	}
	return ""
}

// kindsOf returns the kinds in a list of types, such as deploy,cm, or nil if the word is not a
// type. If only some of the listed types are kinds that get prints, it returns a usage error.
func kindsOf(list string) (kinds []string, err error) {
	words := strings.Split(list, ",")
	claims := false
	for _, word := range words {
		switch kind := kindOf(word); {
		case strings.EqualFold(word, "all"):
			kinds = append(kinds, apikind.All()...)
		case kind != "":
			kinds = append(kinds, kind)
		case len(words) == 1:
			return nil, nil
		case slices.Contains(apikind.ClaimTypes, strings.ToLower(word)):
			claims = true
		default:
			return nil, notInList(word, words)
		}
	}
	if claims {
		return nil, grammar.NamesError(errors.New("pvc cannot be combined with other types"), "run 'podrun get pvc' to list claims, and a second 'podrun get' for the other types")
	}
	return kinds, nil
}

// notInList returns the usage error for a list of types that contains a type that get does not
// print.
func notInList(word string, words []string) error {
	var rest []string
	for _, other := range words {
		if kindOf(other) != "" || strings.EqualFold(other, "all") {
			rest = append(rest, other)
		}
	}
	hint := grammar.Instead(word)
	if len(rest) > 0 {
		other := "run 'podrun get " + strings.Join(rest, ",") + "' for the other types"
		if hint != "" {
			other = hint + "; " + other
		}
		hint = other
	}
	return grammar.NamesError(fmt.Errorf("podrun has no objects of the type %q: get prints pods, workloads, Services, EndpointSlices, ConfigMaps and Secrets", word), hint)
}

// found is an object that get prints.
type found struct {
	kind string
	runtime.Object
	meta metav1.Object
	// the first pod of a workload, or the object itself; nil for a Job or CronJob of 'podrun serve' and for
	// a workload without pods
	pod  *corev1.Pod
	pods []*corev1.Pod // all pods of a workload
	// the pods of a Job of 'podrun serve'
	jobPods []*corev1.Pod
	// the Service itself, or that of an EndpointSlice; otherwise nil
	service *servicesync.View
	lost    error // the Secret's data is lost (run.Referred)
}

// watchOfPods returns the command line with pods in place of workloads, in quotation marks. A workload's pod has its
// name.
func (a *app) watchOfPods() string {
	for i, word := range a.line.Typed {
		kind, name, ok := strings.Cut(word, "/")
		switch {
		case apikind.WorkloadKind(kind) == "" && word != "all":
		case ok:
			return a.line.WithWords(i, i+1, "pod/"+name)
		default:
			return a.line.WithWords(i, i+1, "pods")
		}
	}
	return "'podrun get pods -w'"
}

// getObjects prints workloads, ConfigMaps and Secrets, and pods together with them.
func (a *app) getObjects(c *cobra.Command, f *getFlags, s selection) error {
	if f.watch || f.watchOnly {
		return problem.UsageError(errors.New("--watch is for pods only"), "use "+a.watchOfPods())
	}
	if f.sources || f.fieldSelector != "" {
		return problem.UsageError(errors.New("--sources and --field-selector are for pods only"), "use 'podrun get pods'")
	}
	byTemplate, match, err := a.getOutput(c.Context(), f)
	if err != nil {
		return err
	}
	engine, closeAll, err := a.engine(c.Context(), &renderer{w: a.streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	objects, missing, err := a.readObjects(c.Context(), engine, a.namespaceRead(f.allNamespaces), s)
	if err != nil {
		return err
	}
	if f.ignoreMissing {
		missing = nil
	}
	objects = slices.DeleteFunc(objects, func(o found) bool { return !match(o.meta.GetLabels()) })
	if err := sortObjects(objects, s, f.sortBy); err != nil {
		return grammar.Usage(c, fmt.Errorf("--sort-by: %w", err))
	}
	if len(objects) == 0 && (missing != nil || f.ignoreMissing && len(s.refs) > 0) {
		return missing
	}
	return errors.Join(missing, a.printObjects(engine, objects, f, byTemplate, s))
}

// readObjects reads the selected objects, in the order of the selection. Missing joins the errors
// of named objects that do not exist.
func (a *app) readObjects(ctx context.Context, e *run.Node, namespace string, s selection) (out []found, missing, err error) {
	now := time.Now()
	views, err := lookup.Pods(ctx, e, lookup.Selector{Namespace: namespace})
	if err != nil {
		return nil, nil, err
	}
	a.observedAt = map[types.UID]time.Time{}
	jobs, cronJobs, err := lookup.Jobs(e.Layout(), namespace, e.WarnOnce)
	if err != nil {
		return nil, nil, err
	}
	all, ofJobs := map[string][]found{}, map[string]bool{}
	for _, j := range jobs {
		one := found{kind: "Job", Object: j.Object, meta: j.Object}
		for _, name := range j.Pods {
			key := j.Object.Namespace + "/" + name
			ofJobs[key] = true
			if i := slices.IndexFunc(views, func(v lookup.View) bool { return v.ID.String() == key }); i >= 0 {
				one.jobPods = append(one.jobPods, views[i].Object)
			}
		}
		all["Job"] = append(all["Job"], one)
	}
	for _, c := range cronJobs {
		all["CronJob"] = append(all["CronJob"], found{kind: "CronJob", Object: c, meta: c})
	}
	for _, v := range views {
		all[apikind.Pod] = append(all[apikind.Pod], found{kind: apikind.Pod, Object: v.Object, meta: v.Object, pod: v.Object})
		if !v.KnownAt.IsZero() {
			a.observedAt[v.Object.UID] = v.KnownAt
		}
	}
	// The Jobs themselves are in jobs.
	workloads, err := run.Workloads(e, slices.DeleteFunc(views, func(v lookup.View) bool { return ofJobs[v.ID.String()] }), namespace, now)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range workloads {
		one := found{kind: w.Kind, Object: w.Object, meta: w.Object, pods: w.Pods}
		if len(w.Pods) > 0 {
			one.pod = w.Pods[0]
		}
		all[w.Kind] = append(all[w.Kind], one)
	}
	if err := readServices(ctx, e, namespace, s, all); err != nil {
		return nil, nil, err
	}
	referred, err := lookup.ReferredObjects(e.Layout(), namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range referred {
		kind := r.Object.GetObjectKind().GroupVersionKind().Kind
		all[kind] = append(all[kind], found{kind: kind, Object: r.Object, meta: r.Object, lost: r.Lost})
	}
	for _, kind := range s.kinds {
		out = append(out, all[kind]...)
	}
	for _, ref := range s.refs {
		before := len(out)
		for _, o := range all[ref.Kind] {
			if o.meta.GetName() == ref.Name {
				out = append(out, o)
			}
		}
		if len(out) == before {
			missing = errors.Join(missing, missingObject(e, namespace, ref))
		}
	}
	return out, missing, nil
}

// readServices adds the Services and EndpointSlices to all, if they are selected.
func readServices(ctx context.Context, e *run.Node, namespace string, s selection, all map[string][]found) error {
	isService := func(kind string) bool { return kind == apikind.Service || kind == apikind.SliceKind }
	if !slices.ContainsFunc(s.kinds, isService) && !slices.ContainsFunc(s.refs, func(r lookup.Ref) bool { return isService(r.Kind) }) {
		return nil
	}
	views, err := servicesync.List(ctx, e, namespace)
	for _, v := range views {
		all[apikind.Service] = append(all[apikind.Service], found{kind: apikind.Service, Object: v.Service, meta: v.Service, service: &v})
		for _, slice := range v.Slices {
			all[apikind.SliceKind] = append(all[apikind.SliceKind], found{kind: apikind.SliceKind, Object: slice, meta: slice, service: &v})
		}
	}
	return err
}

// missingObject returns the error for a named object that podrun does not have.
func missingObject(e *run.Node, namespace string, ref lookup.Ref) error {
	if ref.Kind == apikind.Pod {
		return notFound(ref.Name)
	}
	hint := "run 'podrun get " + apikind.Of(ref.Kind).Names[0] + " -A' to list those that pods refer to"
	switch t := apikind.Of(ref.Kind); {
	case t.Network():
		hint = "run 'podrun get " + t.Names[0] + " -A' to list those that were applied"
	case !t.Referred():
		if _, err := ref.Resolve(e.Layout(), namespace); err != nil {
			return err
		}
		hint = "run 'podrun get all -A' to list the pods and the workloads that define them"
	}
	return &problem.Error{Kind: problem.Failed, Object: strings.ToLower(ref.Kind) + " " + ref.Name, Err: errors.New("not found"), Hint: hint}
}

// sortObjects sorts the objects of each kind by a field, as kubectl does for each table. Without a
// field, the objects remain in the order of the selection and, for each kind, are sorted by name.
func sortObjects(objects []found, s selection, by string) error {
	if by == "" {
		return nil
	}
	return view.SortByField(objects, by, func(o *found) runtime.Object { return o.Object }, func(a, b *found) int {
		if len(s.refs) > 0 {
			return 0
		}
		return slices.Index(s.kinds, a.kind) - slices.Index(s.kinds, b.kind)
	})
}

func (a *app) printObjects(engine *run.Node, objects []found, f *getFlags, byTemplate podPrinter, s selection) error {
	single := len(s.refs) == 1 && len(objects) == 1
	switch {
	case a.output == "name":
		for _, o := range objects {
			fmt.Fprintln(a.streams.Out, resourceOf(o.kind)+"/"+o.meta.GetName())
		}
		return nil
	case a.output == "" || a.output == "wide":
		return a.printObjectTables(objects, f, s)
	}
	if f.references {
		return a.printWithReferences(engine, objects)
	}
	var list corev1.List
	list.APIVersion, list.Kind, list.Items = "v1", "List", []runtime.RawExtension{}
	for _, o := range objects {
		if o.lost != nil {
			return o.lost
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: o.Object})
	}
	var shown runtime.Object = &list
	if single {
		shown = objects[0].Object
	}
	if byTemplate != nil {
		return a.printTemplate(byTemplate, shown)
	}
	return view.PrintData(a.raw.Out, a.output, shown)
}

// resourceOf returns the name of a type as -o name prints it.
func resourceOf(kind string) string {
	if t := apikind.Of(kind); t != nil {
		return t.Resource
	}
	return "pod"
}

// printObjectTables prints a table for each kind. As in kubectl, the names have the type as a prefix if
// several types were requested.
func (a *app) printObjectTables(objects []found, f *getFlags, s selection) error {
	if len(objects) == 0 {
		fmt.Fprintln(a.streams.Err, "no objects found")
		return nil
	}
	kinds := slices.Clone(s.kinds)
	for _, ref := range s.refs {
		kinds = append(kinds, ref.Kind)
	}
	slices.Sort(kinds)
	prefixed := len(slices.Compact(kinds)) > 1
	for begin := 0; begin < len(objects); {
		end := begin + 1
		for end < len(objects) && objects[end].kind == objects[begin].kind {
			end++
		}
		if begin > 0 {
			fmt.Fprintln(a.streams.Out)
		}
		if err := a.printObjectTable(objects[begin:end], f, prefixed); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// printObjectTable prints the table of objects of one kind.
func (a *app) printObjectTable(objects []found, f *getFlags, prefixed bool) error {
	o := view.TableOptions{Wide: a.output == "wide", Namespaces: f.allNamespaces, Now: time.Now(), KnownAt: a.observedAt, Notes: a.notes(f, true),
		NoHeaders: f.noHeaders, LabelColumns: f.labels, ShowLabels: f.showLabels}
	if prefixed {
		o.Prefix = resourceOf(objects[0].kind) + "/"
	}
	s := a.screenOf(a.outTerminal)
	if objects[0].kind == apikind.Pod {
		var pods []corev1.Pod
		for _, p := range objects {
			pods = append(pods, *p.Object.(*corev1.Pod))
		}
		return view.PodTable(a.raw.Out, s, pods, o)
	}
	rows := objectRows(apikind.Of(objects[0].kind), objects, o)
	if s.Hides(rows) && (o.Wide || o.ShowLabels || len(o.LabelColumns) > 0) {
		// The user requested the last columns, so podrun lets the terminal wrap the lines.
		s.Width = 0
	}
	return s.Table(a.raw.Out, rows)
}

// objectRows returns the rows of a table of objects of one type.
func objectRows(t *apikind.Type, objects []found, o view.TableOptions) (rows [][]view.Cell) {
	row := func(namespace string, texts ...string) {
		if o.Namespaces {
			texts = slices.Insert(texts, 0, namespace)
		}
		cells := make([]view.Cell, len(texts))
		for i, text := range texts {
			cells[i].Text = view.OneLine(text)
		}
		rows = append(rows, cells)
	}
	if !o.NoHeaders {
		headings := append(append([]string{"NAME"}, t.Headings...), "AGE")
		if o.Wide {
			headings = append(headings, t.Wide...)
		}
		row("NAMESPACE", append(headings, view.LabelHeadings(o)...)...)
	}
	for _, object := range objects {
		cells := append([]string{o.Prefix + object.meta.GetName()}, t.Cells(object.Object, o)...)
		if object.lost != nil {
			cells[len(cells)-1] = "<unknown>"
		}
		cells = append(cells, view.AgeCell(object.meta.GetCreationTimestamp(), o.Now))
		if o.Wide && t.WideCells != nil {
			cells = append(cells, t.WideCells(object.Object)...)
		}
		if o.Wide && t.Template != nil {
			spec, selector := t.Template(object.Object)
			cells = append(cells, []string{apikind.ContainerNames(spec), apikind.ContainerImages(spec), view.OrNone(selector)}[:len(t.Wide)]...)
		}
		for _, key := range o.LabelColumns {
			cells = append(cells, object.meta.GetLabels()[key])
		}
		if o.ShowLabels {
			cells = append(cells, view.OrNone(labels.FormatLabels(object.meta.GetLabels())))
		}
		row(object.meta.GetNamespace(), cells...)
	}
	return rows
}
