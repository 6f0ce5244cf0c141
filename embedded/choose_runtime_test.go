package embedded

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
)

const (
	containerd = "unix:///run/containerd/containerd.sock"
	crio       = "unix:///run/crio/crio.sock"
)

func survey(first, second SocketState, installed ...string) *Survey {
	s := &Survey{Sockets: []Socket{{containerd, first, "containerd"}, {crio, second, "crio"}}, Installed: map[string]string{}}
	for _, name := range installed {
		s.Installed[name] = "/usr/bin/" + name
	}
	return s
}

func TestChoose(t *testing.T) {
	own, other := &Choice{Kind: Own}, &Choice{Kind: External, Endpoint: containerd}
	pods := []string{"default/web"}
	for name, c := range map[string]struct {
		in   ChooseInput
		want Decision
		err  string // part of the error and its hint, if an error is expected
		kind problem.Kind
	}{
		"containerd answers":                                       {in: ChooseInput{Survey: survey(Answers, Answers), Use: Starts, Archive: true}, want: Decision{Kind: External, Endpoint: containerd, Record: true, Notice: "using the container runtime at " + containerd}},
		"only crio answers":                                        {in: ChooseInput{Survey: survey(Absent, Answers), Use: Starts}, want: Decision{Kind: External, Endpoint: crio, Record: true, Notice: "using the container runtime at " + crio}},
		"a command that reads does not record":                     {in: ChooseInput{Survey: survey(Answers, Absent), Use: Reads}, want: Decision{Kind: External, Endpoint: containerd, Notice: "using the container runtime at " + containerd}},
		"a socket that is silent is not passed over, nor recorded": {in: ChooseInput{Survey: survey(Silent, Answers), Use: Starts, Archive: true}, want: Decision{Kind: External, Endpoint: containerd}},
		"Docker's containerd counts as none":                       {in: ChooseInput{Survey: survey(NoCRI, Absent, "containerd"), Use: Starts, Archive: true}, want: Decision{Kind: Own, Record: true, Notice: "using the embedded container runtime"}},
		"Docker's containerd beside CRI-O":                         {in: ChooseInput{Survey: survey(NoCRI, Answers, "containerd"), Use: Starts, Archive: true}, want: Decision{Kind: External, Endpoint: crio, Record: true, Notice: "using the container runtime at " + crio}},
		"containerd is installed and late":                         {in: ChooseInput{Survey: survey(Absent, Absent, "containerd"), Use: Starts, Archive: true}, err: "/usr/bin/containerd is installed, and " + containerd + " does not exist|--runtime=embedded", kind: problem.Runtime},
		"CRI-O is installed and late beside Docker":                {in: ChooseInput{Survey: survey(NoCRI, Absent, "containerd", "crio"), Use: Starts, Archive: true}, err: "/usr/bin/crio is installed", kind: problem.Runtime},
		"installed, late, no archive":                              {in: ChooseInput{Survey: survey(Absent, Absent, "containerd"), Use: Starts}, err: "is installed|start it ('systemctl start containerd'), or set another socket", kind: problem.Runtime},
		"a bare host":                                              {in: ChooseInput{Survey: survey(Absent, Absent), Use: Starts, Archive: true}, want: Decision{Kind: Own, Record: true, Notice: "using the embedded container runtime"}},
		"a bare host, to read":                                     {in: ChooseInput{Survey: survey(Absent, Absent), Use: Reads, Archive: true}, want: Decision{Kind: Own, Notice: "using the embedded container runtime"}},
		"a bare host without an archive":                           {in: ChooseInput{Survey: survey(Absent, Absent), Use: Starts}, err: "no container runtime found: |podrun-bundle", kind: problem.Runtime},
		"Docker alone without an archive":                          {in: ChooseInput{Survey: survey(NoCRI, Absent, "containerd"), Use: Starts}, err: "does not serve CRI|disabled_plugins", kind: problem.Runtime},

		"a socket that an uninstalled runtime left": {in: ChooseInput{Survey: survey(Stale, Absent), Use: Starts, Archive: true}, want: Decision{Kind: Own, Record: true, Notice: "using the embedded container runtime"}},
		"a socket of a runtime that has ended":      {in: ChooseInput{Survey: survey(Stale, Absent, "containerd"), Use: Starts, Archive: true}, want: Decision{Kind: External, Endpoint: containerd}},
		"a bare host with pods of an older podrun":  {in: ChooseInput{Survey: survey(Absent, Absent), Use: Starts, Archive: true, Pods: pods}, err: "the runtime of existing pods is not recorded: default/web|--runtime", kind: problem.Runtime},

		"the record decides":                  {in: ChooseInput{Record: own, Use: Starts}, want: Decision{Kind: Own}},
		"the record of another runtime":       {in: ChooseInput{Record: other, Use: Starts, Archive: true}, want: Decision{Kind: External, Endpoint: containerd}},
		"what is recorded, explicitly":        {in: ChooseInput{Wanted: containerd, Record: other, Use: Starts, Pods: pods}, want: Decision{Kind: External, Endpoint: containerd}},
		"an endpoint, for the first time":     {in: ChooseInput{Wanted: crio, Use: Starts, Pods: pods}, want: Decision{Kind: External, Endpoint: crio, Record: true}},
		"another endpoint, no pods":           {in: ChooseInput{Wanted: crio, Record: other, Use: Starts}, want: Decision{Kind: External, Endpoint: crio, Record: true}},
		"another endpoint, pods":              {in: ChooseInput{Wanted: crio, Record: other, Use: Starts, Pods: pods}, err: "container runtime " + crio + ": pods of this root directory use the container runtime at " + containerd + ": default/web|unset --runtime, --container-runtime-endpoint and PODRUN_CONTAINER_RUNTIME_ENDPOINT; to change it", kind: problem.Refused},
		"another endpoint to delete, pods":    {in: ChooseInput{Wanted: crio, Record: other, Use: Acts, Pods: pods}, err: "default/web", kind: problem.Refused},
		"another endpoint to read, pods":      {in: ChooseInput{Wanted: crio, Record: other, Use: Reads, Pods: pods}, want: Decision{Kind: External, Endpoint: crio}},
		"an endpoint instead of embedded":     {in: ChooseInput{Wanted: crio, Record: own, Use: Starts, Pods: pods}, err: "use the embedded runtime: default/web", kind: problem.Refused},
		"embedded, for the first time":        {in: ChooseInput{Wanted: ByFlag, Use: Starts, Archive: true}, want: Decision{Kind: Own, Record: true}},
		"embedded beside pods of none":        {in: ChooseInput{Wanted: ByFlag, Use: Starts, Archive: true, Pods: pods}, err: "use the container runtime of this host: default/web", kind: problem.Refused},
		"embedded again":                      {in: ChooseInput{Wanted: ByFlag, Record: own, Use: Starts, Archive: true, Pods: pods}, want: Decision{Kind: Own}},
		"embedded, recorded, without archive": {in: ChooseInput{Wanted: ByFlag, Record: own, Use: Starts, Pods: pods}, want: Decision{Kind: Own}},
		"embedded without an archive":         {in: ChooseInput{Wanted: ByFlag, Use: Starts}, err: "this podrun binary has no embedded runtime|podrun-bundle", kind: problem.Runtime},
		"many pods are counted":               {in: ChooseInput{Wanted: crio, Record: own, Use: Acts, Pods: []string{"a/a", "b/b", "c/c", "d/d", "e/e"}}, err: "a/a, b/b, c/c and 2 more", kind: problem.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			if c.in.Wanted == "" {
				c.in.Wanted = Auto
			}
			if NeedsSurvey(c.in.Wanted, c.in.Record) != (c.in.Survey != nil) {
				t.Fatal("whether the survey was requested does not match the table")
			}
			got, err := Choose(c.in)
			if c.err == "" {
				if err != nil || got != c.want {
					t.Fatalf("%+v, %v\nwant %+v", got, err, c.want)
				}
				return
			}
			e, ok := err.(*problem.Error)
			if !ok || e.Kind != c.kind {
				t.Fatalf("error %v, want one of kind %s", err, c.kind)
			}
			for part := range strings.SplitSeq(c.err, "|") {
				if !strings.Contains(e.Error()+" -> "+e.Hint, part) {
					t.Errorf("%v (%s)\nlacks %q", e, e.Hint, part)
				}
			}
		})
	}
}
