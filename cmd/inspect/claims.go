package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
)

// claimNames returns the names in 'pvc NAME...' and 'pvc/NAME...', and false if the
// arguments do not refer to claims.
func claimNames(given []string) (names []string, ok bool) {
	for i, word := range given {
		kind, name, slash := strings.Cut(word, "/")
		switch {
		case i == 0 && !slash && len(given) > 0 && slices.Contains(apikind.ClaimTypes, strings.ToLower(word)):
			ok = true
		case slash && slices.Contains(apikind.ClaimTypes, strings.ToLower(kind)):
			names, ok = append(names, name), true
		case ok && !slash:
			names = append(names, word)
		default:
			return nil, false
		}
	}
	return names, ok
}

// getClaims prints the claims that have directories.
func getClaims(a *cli.App, c *cobra.Command, f *getFlags, names []string) error {
	if f.watch || f.watchOnly || f.sources || f.selector != "" || f.sortBy != "" || len(f.labels) > 0 || f.showLabels {
		return grammar.Usage(c, errors.New("get pvc accepts only names, -A, -n, -o and --no-headers"))
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name", "wide"); err != nil {
		return err
	}
	settings, notes, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	a.WarnAbout(&cli.Renderer{W: a.Streams.Err}, notes)
	namespace := a.NamespaceOrDefault("default")
	if f.allNamespaces {
		namespace = ""
	}
	claims, err := lookup.Claims(settings, namespace)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(claims, func(c lookup.Claim) bool { return c.Object.Name == name }) {
			return &problem.Error{Kind: problem.Failed, Object: "claim " + name, Err: errors.New("not found"),
				Hint: "run 'podrun get pvc -A' to list the claims that have a directory in --pvc-dir"}
		}
	}
	if len(names) > 0 {
		claims = slices.DeleteFunc(claims, func(c lookup.Claim) bool { return !slices.Contains(names, c.Object.Name) })
	}
	return printClaims(a, claims, f, len(names) == 1 && len(claims) == 1)
}

func printClaims(a *cli.App, claims []lookup.Claim, f *getFlags, single bool) error {
	switch a.Output {
	case "json", "yaml":
		if single {
			return view.PrintData(a.Raw.Out, a.Output, claims[0].Object)
		}
		list := corev1.PersistentVolumeClaimList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaimList"},
			Items:    []corev1.PersistentVolumeClaim{},
		}
		for _, c := range claims {
			list.Items = append(list.Items, *c.Object)
		}
		return view.PrintData(a.Raw.Out, a.Output, list)
	case "name":
		for _, c := range claims {
			fmt.Fprintf(a.Streams.Out, "persistentvolumeclaim/%s\n", c.Object.Name)
		}
		return nil
	}
	if len(claims) == 0 {
		fmt.Fprintln(a.Streams.Err, "no claims found")
		return nil
	}
	table := view.Table{Namespaces: f.allNamespaces, NoHeaders: f.noHeaders}
	table.Head("NAME", "STATUS", "VOLUME", "CAPACITY", "ACCESS MODES", "USED BY", "PATH")
	for _, c := range claims {
		size, modes := "", []string{}
		if q, ok := c.Object.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
			size = q.String()
		}
		for _, m := range c.Object.Spec.AccessModes {
			modes = append(modes, accessModes[m])
		}
		table.Row(c.Object.Namespace, c.Object.Name, string(c.Object.Status.Phase), c.Object.Spec.VolumeName, view.OrNone(size), view.OrNone(strings.Join(modes, ",")),
			view.OrNone(strings.Join(c.Pods, ",")), c.Path)
	}
	return table.Print(a.Streams.Out)
}

// accessModes are kubectl's abbreviations of access modes.
var accessModes = map[corev1.PersistentVolumeAccessMode]string{
	corev1.ReadWriteOnce: "RWO", corev1.ReadOnlyMany: "ROX", corev1.ReadWriteMany: "RWX", corev1.ReadWriteOncePod: "RWOP",
}
