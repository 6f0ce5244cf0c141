package inspect

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/servicesync"
)

// Selection contains the objects that the arguments of get select: all objects of some kinds, or named objects.
type Selection struct {
	Kinds []string // in the order of the arguments
	refs  []lookup.Ref
}

// parseSelection parses the arguments of get that name types other than pods: TYPE, TYPE,TYPE,
// all, TYPE NAME... or TYPE/NAME. It returns false if the arguments select only pods.
func parseSelection(given []string) (s Selection, ok bool, err error) {
	if len(given) == 0 {
		return s, false, nil
	}
	if strings.Contains(given[0], "/") {
		for _, word := range given {
			ref := lookup.Ref{Kind: apikind.Pod, Name: word}
			if kind, name, typed := strings.Cut(word, "/"); typed {
				if ref = (lookup.Ref{Kind: cli.KindOf(kind), Name: name}); ref.Kind == "" || name == "" || strings.Contains(name, "/") {
					return Selection{}, false, nil // podRefs reports it
				}
			}
			s.refs = append(s.refs, ref)
		}
		return s, slices.ContainsFunc(s.refs, func(r lookup.Ref) bool { return r.Kind != apikind.Pod }), nil
	}
	if s.Kinds, err = cli.KindsOf(given[0]); err != nil || !slices.ContainsFunc(s.Kinds, func(k string) bool { return k != apikind.Pod }) {
		return Selection{}, false, err
	}
	if len(given) == 1 {
		return s, true, nil
	}
	for _, name := range given[1:] {
		if strings.Contains(name, "/") {
			return Selection{}, false, problem.UsageError(fmt.Errorf("%q already has a type", name), "omit "+shellword.Quote(given[0])+", or the type in "+shellword.Quote(name))
		}
		for _, kind := range s.Kinds {
			s.refs = append(s.refs, lookup.Ref{Kind: kind, Name: name})
		}
	}
	s.Kinds = nil
	return s, true, nil
}

// Object is an object that get prints.
type Object struct {
	Kind string
	runtime.Object
	Meta metav1.Object
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
func watchOfPods(a *cli.App) string {
	for i, word := range a.Line.Typed {
		kind, name, ok := strings.Cut(word, "/")
		switch {
		case apikind.WorkloadKind(kind) == "" && word != "all":
		case ok:
			return a.Line.WithWords(i, i+1, "pod/"+name)
		default:
			return a.Line.WithWords(i, i+1, "pods")
		}
	}
	return "'podrun get pods -w'"
}

// getObjects prints workloads, ConfigMaps and Secrets, and pods together with them.
func getObjects(a *cli.App, c *cobra.Command, f *getFlags, s Selection) error {
	if f.watch || f.watchOnly {
		return problem.UsageError(errors.New("--watch is for pods only"), "use "+watchOfPods(a))
	}
	if f.sources || f.fieldSelector != "" {
		return problem.UsageError(errors.New("--sources and --field-selector are for pods only"), "use 'podrun get pods'")
	}
	byTemplate, match, err := getOutput(c.Context(), a, f)
	if err != nil {
		return err
	}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: a.Streams.Err}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	objects, missing, err := ReadObjects(c.Context(), a, node, namespaceRead(a, f.allNamespaces), s)
	if err != nil {
		return err
	}
	if f.ignoreMissing {
		missing = nil
	}
	objects = slices.DeleteFunc(objects, func(o Object) bool { return !match(o.Meta.GetLabels()) })
	if err := sortObjects(objects, s, f.sortBy); err != nil {
		return grammar.Usage(c, fmt.Errorf("--sort-by: %w", err))
	}
	if len(objects) == 0 && (missing != nil || f.ignoreMissing && len(s.refs) > 0) {
		return missing
	}
	return errors.Join(missing, printObjects(a, node, objects, f, byTemplate, s))
}

// ReadObjects reads the selected objects, in the order of the selection. Missing joins the errors
// of named objects that do not exist.
func ReadObjects(ctx context.Context, a *cli.App, node *run.Node, namespace string, s Selection) (out []Object, missing, err error) {
	now := time.Now()
	views, err := lookup.Pods(ctx, node, lookup.Selector{Namespace: namespace})
	if err != nil {
		return nil, nil, err
	}
	a.ObservedAt = map[types.UID]time.Time{}
	jobs, cronJobs, err := lookup.Jobs(node.Layout(), namespace, node.WarnOnce)
	if err != nil {
		return nil, nil, err
	}
	all, ofJobs := map[string][]Object{}, map[string]bool{}
	for _, j := range jobs {
		one := Object{Kind: "Job", Object: j.Object, Meta: j.Object}
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
		all["CronJob"] = append(all["CronJob"], Object{Kind: "CronJob", Object: c, Meta: c})
	}
	for _, v := range views {
		all[apikind.Pod] = append(all[apikind.Pod], Object{Kind: apikind.Pod, Object: v.Object, Meta: v.Object, pod: v.Object})
		if !v.KnownAt.IsZero() {
			a.ObservedAt[v.Object.UID] = v.KnownAt
		}
	}
	// The Jobs themselves are in jobs.
	workloads, err := run.Workloads(node, slices.DeleteFunc(views, func(v lookup.View) bool { return ofJobs[v.ID.String()] }), namespace, now)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range workloads {
		one := Object{Kind: w.Kind, Object: w.Object, Meta: w.Object, pods: w.Pods}
		if len(w.Pods) > 0 {
			one.pod = w.Pods[0]
		}
		all[w.Kind] = append(all[w.Kind], one)
	}
	if err := readServices(ctx, node, namespace, s, all); err != nil {
		return nil, nil, err
	}
	referred, err := lookup.ReferredObjects(node.Layout(), namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range referred {
		kind := r.Object.GetObjectKind().GroupVersionKind().Kind
		all[kind] = append(all[kind], Object{Kind: kind, Object: r.Object, Meta: r.Object, lost: r.Lost})
	}
	for _, kind := range s.Kinds {
		out = append(out, all[kind]...)
	}
	for _, ref := range s.refs {
		before := len(out)
		for _, o := range all[ref.Kind] {
			if o.Meta.GetName() == ref.Name {
				out = append(out, o)
			}
		}
		if len(out) == before {
			missing = errors.Join(missing, missingObject(node, namespace, ref))
		}
	}
	return out, missing, nil
}

// readServices adds the Services and EndpointSlices to all, if they are selected.
func readServices(ctx context.Context, node *run.Node, namespace string, s Selection, all map[string][]Object) error {
	isService := func(kind string) bool { return kind == apikind.Service || kind == apikind.SliceKind }
	if !slices.ContainsFunc(s.Kinds, isService) && !slices.ContainsFunc(s.refs, func(r lookup.Ref) bool { return isService(r.Kind) }) {
		return nil
	}
	views, err := servicesync.List(ctx, node, namespace)
	for _, v := range views {
		all[apikind.Service] = append(all[apikind.Service], Object{Kind: apikind.Service, Object: v.Service, Meta: v.Service, service: &v})
		for _, slice := range v.Slices {
			all[apikind.SliceKind] = append(all[apikind.SliceKind], Object{Kind: apikind.SliceKind, Object: slice, Meta: slice, service: &v})
		}
	}
	return err
}

// missingObject returns the error for a named object that podrun does not have.
func missingObject(node *run.Node, namespace string, ref lookup.Ref) error {
	if ref.Kind == apikind.Pod {
		return cli.NotFound(ref.Name)
	}
	hint := "run 'podrun get " + apikind.Of(ref.Kind).Names[0] + " -A' to list those that pods refer to"
	switch t := apikind.Of(ref.Kind); {
	case t.Network():
		hint = "run 'podrun get " + t.Names[0] + " -A' to list those that were applied"
	case !t.Referred():
		if _, err := ref.Resolve(node.Layout(), namespace); err != nil {
			return err
		}
		hint = "run 'podrun get all -A' to list the pods and the workloads that define them"
	}
	return &problem.Error{Kind: problem.Failed, Object: strings.ToLower(ref.Kind) + " " + ref.Name, Err: errors.New("not found"), Hint: hint}
}

// sortObjects sorts the objects of each kind by a field, as kubectl does for each table. Without a
// field, the objects remain in the order of the selection and, for each kind, are sorted by name.
func sortObjects(objects []Object, s Selection, by string) error {
	if by == "" {
		return nil
	}
	return view.SortByField(objects, by, func(o *Object) runtime.Object { return o.Object }, func(a, b *Object) int {
		if len(s.refs) > 0 {
			return 0
		}
		return slices.Index(s.Kinds, a.Kind) - slices.Index(s.Kinds, b.Kind)
	})
}

func printObjects(a *cli.App, node *run.Node, objects []Object, f *getFlags, byTemplate podPrinter, s Selection) error {
	single := len(s.refs) == 1 && len(objects) == 1
	switch {
	case a.Output == "name":
		for _, o := range objects {
			fmt.Fprintln(a.Streams.Out, cli.ResourceOf(o.Kind)+"/"+o.Meta.GetName())
		}
		return nil
	case a.Output == "" || a.Output == "wide":
		return printObjectTables(a, objects, f, s)
	}
	if f.references {
		return printWithReferences(a, node, objects)
	}
	var list corev1.List
	list.APIVersion = "v1"
	list.Kind = "List"
	list.Items = []runtime.RawExtension{}
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
		return printTemplate(a, byTemplate, shown)
	}
	return view.PrintData(a.Raw.Out, a.Output, shown)
}

// printObjectTables prints a table for each kind. As in kubectl, the names have the type as a prefix if
// several types were requested.
func printObjectTables(a *cli.App, objects []Object, f *getFlags, s Selection) error {
	if len(objects) == 0 {
		fmt.Fprintln(a.Streams.Err, "no objects found")
		return nil
	}
	kinds := slices.Clone(s.Kinds)
	for _, ref := range s.refs {
		kinds = append(kinds, ref.Kind)
	}
	slices.Sort(kinds)
	prefixed := len(slices.Compact(kinds)) > 1
	for begin := 0; begin < len(objects); {
		end := begin + 1
		for end < len(objects) && objects[end].Kind == objects[begin].Kind {
			end++
		}
		if begin > 0 {
			fmt.Fprintln(a.Streams.Out)
		}
		if err := printObjectTable(a, objects[begin:end], f, prefixed); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// printObjectTable prints the table of objects of one kind.
func printObjectTable(a *cli.App, objects []Object, f *getFlags, prefixed bool) error {
	o := tableOptions(a, f, true)
	if prefixed {
		o.Prefix = cli.ResourceOf(objects[0].Kind) + "/"
	}
	s := a.ScreenOf(a.OutTerminal)
	if objects[0].Kind == apikind.Pod {
		var pods []corev1.Pod
		for _, p := range objects {
			pods = append(pods, *p.Object.(*corev1.Pod))
		}
		return view.PodTable(a.Raw.Out, s, pods, o)
	}
	return o.Print(a.Raw.Out, s, objectRows(apikind.Of(objects[0].Kind), objects, o))
}

// objectRows returns the rows of a table of objects of one type.
func objectRows(t *apikind.Type, objects []Object, o view.TableOptions) [][]view.Cell {
	table := view.Table{Namespaces: o.Namespaces, NoHeaders: o.NoHeaders}
	headings := slices.Concat([]string{"NAME"}, t.Headings, []string{"AGE"})
	if o.Wide {
		headings = append(headings, t.Wide...)
	}
	table.Head(append(headings, o.LabelHeadings()...)...)
	for _, object := range objects {
		cells := append([]string{o.Prefix + object.Meta.GetName()}, t.Cells(object.Object, o)...)
		if object.lost != nil {
			cells[len(cells)-1] = "<unknown>"
		}
		cells = append(cells, view.AgeCell(object.Meta.GetCreationTimestamp(), o.Now))
		if o.Wide && t.WideCells != nil {
			cells = append(cells, t.WideCells(object.Object)...)
		}
		if o.Wide && t.Template != nil {
			spec, selector := t.Template(object.Object)
			cells = append(cells, []string{apikind.ContainerNames(spec), apikind.ContainerImages(spec), view.OrNone(selector)}[:len(t.Wide)]...)
		}
		table.Row(object.Meta.GetNamespace(), append(cells, o.LabelCells(object.Meta.GetLabels())...)...)
	}
	return table.Rows
}
