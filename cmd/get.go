package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run"
)

type getFlags struct {
	allNamespaces bool
	selector      string
}

func newGet(a *app) *cobra.Command {
	f := &getFlags{}
	c := &cobra.Command{
		Use:   "get [NAME...]",
		Short: "Show pods and their status",
		Long: `Show the pods that podrun runs on this host, with their status as the kubelet
would report it.`,
		Example: `  podrun get
  podrun get web -o yaml
  podrun get -A -o wide`,
		RunE: func(c *cobra.Command, named []string) error { return a.runGet(c, f, named) },
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector of the pods (app=web,tier!=db)")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print as wide, json, yaml or name")
	return c
}

func (a *app) runGet(c *cobra.Command, f *getFlags, given []string) error {
	if len(given) == 1 && strings.EqualFold(given[0], "all") {
		given = nil // kubectl get all: podrun has nothing but pods
	}
	named, err := podNames(given, false)
	if err != nil {
		return err
	}
	if err := checkOutput(a.output, "wide", "json", "yaml", "name"); err != nil {
		return err
	}
	match, err := parseSelector(f.selector)
	if err != nil {
		return usage(c, err)
	}
	r := &renderer{w: a.streams.Err}
	engine, closeAll, err := a.engine(r)
	if err != nil {
		return err
	}
	defer closeAll()
	pods, err := a.readPods(c.Context(), engine, f.allNamespaces, named)
	if err != nil {
		return err
	}
	var shown []corev1.Pod
	for _, p := range pods {
		if match(p.Labels) {
			shown = append(shown, p)
		}
	}
	return a.printPods(shown, f.allNamespaces, len(named) == 1)
}

// readPods reads the pods of the namespace, or those named (podNames).
func (a *app) readPods(ctx context.Context, e *run.Engine, allNamespaces bool, named []string) ([]corev1.Pod, error) {
	sel := run.Selector{Namespace: a.namespace, Names: named}
	if sel.Namespace == "" && !allNamespaces {
		sel.Namespace = "default"
	}
	if allNamespaces {
		sel.Namespace = ""
	}
	views, err := e.Pods(ctx, sel)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var pods []corev1.Pod
	for _, v := range views {
		have[v.ID.Name] = true
		pods = append(pods, *v.Object)
	}
	for _, name := range named {
		if !have[name] {
			return nil, notFound(name)
		}
	}
	return pods, nil
}

// notFound is the error of a pod that was named and is not on this host; without a
// name, of a selection without pods. A name that is the word for another type was perhaps meant as that.
func notFound(name string) error {
	if instead(name) != "" {
		return notPods(name)
	}
	object := "pod " + name
	if name == "" {
		object = "pods of this selection"
	}
	return &problem.Error{Kind: problem.Failed, Object: object, Err: errors.New("not found"), Hint: "'podrun get -A' lists all pods"}
}

func (a *app) printPods(pods []corev1.Pod, allNamespaces, single bool) error {
	out := a.streams.Out
	switch a.output {
	case "json", "yaml":
		if single {
			return printData(a.raw.Out, a.output, pods[0])
		}
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: pods}
		if list.Items == nil {
			list.Items = []corev1.Pod{}
		}
		return printData(a.raw.Out, a.output, list)
	case "name":
		for i := range pods {
			fmt.Fprintf(out, "pod/%s\n", pods[i].Name)
		}
		return nil
	}
	if len(pods) == 0 {
		fmt.Fprintln(a.streams.Err, "no pods found")
		return nil
	}
	return podTable(out, pods, tableOptions{Wide: a.output == "wide", Namespaces: allNamespaces, Now: time.Now()})
}
