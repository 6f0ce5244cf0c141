package grammar

import (
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd/exit"
)

func TestPodRefs(t *testing.T) {
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
		{given: "pods.v1 web", want: "web"},
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
		{given: "deploy/web job.batch/db", want: "deployment/web job/db"},
		{given: "Deployment web db", want: "deployment/web deployment/db"},
		{given: "deployments.v1.apps/web", want: "deployment/web"},
		{given: "sts/a ds/b rs/c cj/d rc/e", want: "statefulset/a daemonset/b replicaset/c cronjob/d replicationcontroller/e"},
		{given: "job pod/web", want: "web"},
		{given: "web deploy/db pod/x", want: "web deployment/db x"},
		{given: "job", want: "job"}, // a pod may have this name
		{given: "job/a/b", err: "not of the form pod/NAME"},

		{given: "svc web", err: `this command does not accept objects of the type "svc"`},
		{given: "svc/web", err: `this command does not accept objects of the type "svc"`},
		{given: "deployments.apps/", err: "not a valid pod name"},
		{given: "pods,svc", err: `objects of the type "svc"`},
		{given: "default/web", err: `objects of the type "default"`},
		{given: "pod/", err: "not of the form pod/NAME"},
		{given: "pod/a/b", err: "not of the form pod/NAME"},
		{given: "pod.yaml", err: `"pod.yaml" is not a valid pod name`},
		{given: "./manifests", err: "not a valid pod name"},
		{given: "manifests/", err: "not a valid pod name"},
		{given: "-", err: "not a valid pod name"},
	}
	for _, test := range tests {
		got, err := PodRefs(strings.Fields(test.given), test.aloneIsName)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("podRefs(%q) = %v, %v; want an error with %q", test.given, got, err, test.err)
			} else if exit.Code(err) != exit.Usage {
				t.Errorf("podRefs(%q): exit code %d, want %d", test.given, exit.Code(err), exit.Usage)
			}
			continue
		}
		var words []string
		for _, ref := range got {
			words = append(words, strings.TrimPrefix(ref.String(), "pod/"))
		}
		if err != nil || !slices.Equal(words, strings.Fields(test.want)) {
			t.Errorf("podRefs(%q) = %q, %v; want %q", test.given, words, err, test.want)
		}
	}
	if _, err := PodRefs([]string{""}, false); err == nil {
		t.Error("an empty name is accepted")
	}
}
