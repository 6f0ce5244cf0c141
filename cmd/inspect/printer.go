package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
)

// plainOutputs are the values of get -o that take no template.
var plainOutputs = []string{"wide", "json", "yaml", "name"}

// templateOutputs are the values of -o that take a template, as in jsonpath={.metadata.name}.
// With the suffix -file, they take the name of a file that contains the template.
var templateOutputs = []string{"jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template", "go-template-file", "custom-columns", "custom-columns-file"}

// maxTemplate is the maximum size of a template file in bytes.
const maxTemplate = 1 << 20

// printFlags are kubectl's flags for printing pods.
type printFlags struct {
	template    string // for -o jsonpath and -o go-template without a value
	allowMissed bool
	noHeaders   bool
	showLabels  bool
	labels      []string
	sortBy      string
}

func (f *printFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.template, "template", "", "template of -o jsonpath or go-template, or file of -o jsonpath-file or go-template-file")
	set.BoolVar(&f.allowMissed, "allow-missing-template-keys", true, "ignore fields of the template that a pod does not have, instead of failing")
	set.BoolVar(&f.noHeaders, "no-headers", false, "do not print column headings")
	set.BoolVar(&f.showLabels, "show-labels", false, "print the labels as the last column")
	set.StringSliceVarP(&f.labels, "label-columns", "L", nil, "print these labels as columns; repeatable")
	set.StringVar(&f.sortBy, "sort-by", "", "sort by a field, given as a JSONPath expression ({.metadata.name})")
}

// podPrinter prints one object, or a list of them.
type podPrinter interface {
	PrintObj(runtime.Object, *bytes.Buffer) error
}

// adapted wraps a printer of k8s.io/cli-runtime.
type adapted struct{ printers.ResourcePrinter }

// PrintObj removes from an error the dump of the whole object that these printers append for
// debugging.
func (p adapted) PrintObj(o runtime.Object, w *bytes.Buffer) error {
	err := p.ResourcePrinter.PrintObj(o, w)
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(err.Error(), ". Printing more information")
	return errors.New(text)
}

// printer returns the printer for a value of -o that takes a template, or nil for any
// other value that get supports. Every error is a usage error.
func (f *printFlags) printer(ctx context.Context, output string) (podPrinter, error) {
	format, template, given := strings.Cut(output, "=")
	if output == "" || slices.Contains(plainOutputs, output) {
		return nil, nil
	}
	if !slices.Contains(templateOutputs, format) {
		return nil, &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("-o %s is not one of %s, %s",
			output, strings.Join(plainOutputs, ", "), strings.Join(templateOutputs, "=…, ")+"=…")}
	}
	if !given {
		template = f.template
	}
	wrong := func(err error) error {
		return &problem.Error{
			Kind:   problem.Usage,
			Object: "-o " + format,
			Err:    err,
			Hint:   "give the template as in -o jsonpath='{.status.phase}' or -o custom-columns=NAME:.metadata.name",
		}
	}
	if template == "" {
		return nil, wrong(errors.New("no template is given"))
	}
	if kind, ok := strings.CutSuffix(format, "-file"); ok {
		data, err := hostfile.ReadInput(ctx, template, maxTemplate)
		if err != nil {
			return nil, wrong(err)
		}
		format, template = kind, string(data)
		if kind == "custom-columns" {
			template, err = view.ColumnsOfFile(template)
			if err != nil {
				return nil, wrong(err)
			}
		}
	}
	made, err := f.templatePrinter(format, template)
	if err != nil {
		return nil, wrong(err)
	}
	return made, nil
}

func (f *printFlags) templatePrinter(format, template string) (podPrinter, error) {
	switch format {
	case "jsonpath", "jsonpath-as-json":
		p, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, err
		}
		p.EnableJSONOutput(format == "jsonpath-as-json")
		p.AllowMissingKeys(f.allowMissed)
		return adapted{p}, nil
	case "go-template":
		p, err := printers.NewGoTemplatePrinter([]byte(template))
		if err != nil {
			return nil, err
		}
		p.AllowMissingKeys(f.allowMissed)
		return adapted{p}, nil
	}
	return view.NewColumns(template, f.noHeaders)
}

// podObject returns the pod itself if the user named a single one, and a list otherwise.
func podObject(pods []corev1.Pod, single bool) runtime.Object {
	if single {
		return &pods[0]
	}
	return cli.ListOf(pods)
}

// printTemplate prints an object or a list by a template.
func printTemplate(a *cli.App, p podPrinter, object runtime.Object) error {
	var text bytes.Buffer
	if err := p.PrintObj(object, &text); err != nil {
		return &problem.Error{Kind: problem.Usage, Object: "-o", Err: err}
	}
	_, err := a.Streams.Out.Write(text.Bytes())
	return err
}
