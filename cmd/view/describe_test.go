package view

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/event"
)

// described is a file in testdata/describe. It has a pod with its status and its journal. It
// also has what 'kubectl describe' (want), 'kubectl get' (get) and 'kubectl get -o wide' (wide)
// print for them in UTC at tableNow, with podrun as the source of events. test/printers checks
// this, and lists the intended differences.
type described struct {
	pod    *corev1.Pod
	events []event.Event
	want   map[string]string // by the name of the section
}

func readDescribed(t *testing.T, path string) described {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := described{pod: &corev1.Pod{}, events: []event.Event{}, want: map[string]string{}}
	for _, f := range archive.Files {
		switch f.Name {
		case "pod.yaml":
			if err := yaml.UnmarshalStrict(f.Data, d.pod); err != nil {
				t.Fatal(err)
			}
		case "events.jsonl":
			d.events = append(d.events, journalOf(t, string(f.Data))...)
		default:
			d.want[f.Name] = string(f.Data)
		}
	}
	return d
}

// journalOf decodes a journal.
func journalOf(t *testing.T, text string) (out []event.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func describedText(t *testing.T, pod *corev1.Pod, events []event.Event) string {
	t.Helper()
	var out bytes.Buffer
	if err := DescribePod(&out, Screen{}, pod, events, time.Time{}, tableNow); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestDescribePod compares the output with kubectl's, byte by byte.
func TestDescribePod(t *testing.T) {
	files, err := filepath.Glob("testdata/describe/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("only %v (%v)", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			d := readDescribed(t, file)
			before := d.pod.DeepCopy()
			if diff := cmp.Diff(d.want["want"], describedText(t, d.pod, d.events)); diff != "" {
				t.Error(diff)
			}
			for name, wide := range map[string]bool{"get": false, "wide": true} {
				var out bytes.Buffer
				if err := PodTable(&out, Screen{}, []corev1.Pod{*d.pod}, TableOptions{Wide: wide, Now: tableNow}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(d.want[name], out.String()); diff != "" {
					t.Errorf("%s (-kubectl +podrun):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(before, d.pod); diff != "" {
				t.Errorf("the pod was changed: %s", diff)
			}
		})
	}
}

// TestDescribeWhatKubectlCannot covers cases in which kubectl panics or prints nothing.
func TestDescribeWhatKubectlCannot(t *testing.T) {
	now := ago(0)
	pod := &corev1.Pod{}
	pod.Name, pod.DeletionTimestamp = "odd", &now
	pod.Spec.Containers = []corev1.Container{{
		Name:           "app",
		LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000}}},
		ReadinessProbe: &corev1.Probe{},
		Env: []corev1.EnvVar{{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{
			FileKeyRef: &corev1.FileKeySelector{VolumeName: "env", Path: "all.env", Key: "TOKEN"}}}},
	}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}}}
	got := describedText(t, pod, nil)
	for _, want := range []string{
		"Node:         <none>\n",
		"Status:       Terminating (lasts 0s)\n",
		"IPs:          <none>\n",
		"    Liveness:   grpc <pod>:9000  delay=0s timeout=0s period=0s #success=0 #failure=0\n",
		"    Readiness:  unknown delay=0s",
		"      TOKEN:  <set to the key 'TOKEN' of file 'all.env' in volume 'env'>  Optional: false\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"Grace Period", "TokenExpirationSeconds", "Events:"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q is in:\n%s", unwanted, got)
		}
	}
}

// A container controls the lines of its termination message: none of them may begin at
// column 0, where it would look like a section of the description.
func TestDescribeIndentsMessages(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name = "web"
	pod.Spec.Containers = []corev1.Container{{Name: "app"}}
	pod.Status.Message = "evicted\nNode: forged"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: "panic: bug\n\nStatus:  Running\nEvents:  <none>\n"},
	}, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: "one\nLabels: forged"}}}}
	got := describedText(t, pod, nil)
	for _, line := range strings.Split(got, "\n") {
		for _, forged := range []string{"Status:  Running", "Events:  <none>", "Labels: forged", "Node: forged"} {
			if strings.HasPrefix(line, forged) {
				t.Errorf("at column 0: %q", line)
			}
		}
	}
	for _, want := range []string{"panic: bug\n", " Status:  Running\n", " Events:  <none>\n", " Labels: forged\n", " Node: forged\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}
