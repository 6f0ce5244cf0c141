package cmd

import (
	"slices"
	"strings"
	"testing"
)

func TestPodNames(t *testing.T) {
	tests := []struct {
		given       string
		aloneIsName bool
		want        string
		err         string // part of the error
	}{
		{given: "", want: ""},
		{given: "web", want: "web"},
		{given: "pod/web", want: "web"},
		{given: "pods/web po/db", want: "web db"},
		{given: "pods web db", want: "web db"},
		{given: "po web", want: "web"},
		{given: "Pod web", want: "web"},
		{given: "POD/web", want: "web"},
		{given: "pod pod/web", want: "web"},
		{given: "web pod/db", want: "web db"},
		{given: "pods", want: ""},
		{given: "pods", aloneIsName: true, want: "pods"},
		{given: "pod pod", want: "pod"},
		{given: "svc", want: "svc"}, // a pod may have this name
		{given: "pod/svc", want: "svc"},
		{given: "pods,po", want: ""},
		{given: "web.example", want: "web.example"},
		{given: "deploy/web job.batch/db", want: "web db"},
		{given: "Deployment web", want: "web"},
		{given: "job", want: "job"}, // a pod may have this name
		{given: "job/a/b", err: "not of the form pod/NAME"},

		{given: "svc web", err: `podrun manages only pods: "svc" is not a pod`},
		{given: "svc/web", err: `podrun manages only pods: "svc" is not a pod`},
		{given: "deployments.apps/", err: "not a valid pod name"},
		{given: "pods,svc", err: `"svc" is not a pod`},
		{given: "default/web", err: `"default" is not a pod`},
		{given: "pod/", err: "not of the form pod/NAME"},
		{given: "pod/a/b", err: "not of the form pod/NAME"},
		{given: "pod.yaml", err: `"pod.yaml" is not a valid pod name`},
		{given: "./manifests", err: "not a valid pod name"},
		{given: "manifests/", err: "not a valid pod name"},
		{given: "-", err: "not a valid pod name"},
	}
	for _, test := range tests {
		got, err := podNames(strings.Fields(test.given), test.aloneIsName)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("podNames(%q) = %q, %v; want an error with %q", test.given, got, err, test.err)
			} else if exitCode(err) != ExitUsage {
				t.Errorf("podNames(%q): exit code %d, want %d", test.given, exitCode(err), ExitUsage)
			}
			continue
		}
		if err != nil || !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("podNames(%q) = %q, %v; want %q", test.given, got, err, test.want)
		}
	}
	if _, err := podNames([]string{""}, false); err == nil {
		t.Error("an empty name is accepted")
	}
}
