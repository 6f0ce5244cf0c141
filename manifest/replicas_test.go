package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest/input"
)

// replicated returns a workload of this kind. The spec has a selector and a template.
func replicatedText(kind, annotations, spec, podSpec string) string {
	api := "apps/v1"
	if kind == "ReplicationController" {
		api = "v1"
	}
	selector := "{matchLabels: {app: web}}"
	if api == "v1" {
		selector = "{app: web}"
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: web, namespace: shop, annotations: {%s}}\nspec: {%s selector: %s, template: {metadata: {labels: {app: web}}, spec: {%s containers: [{name: app, image: 'a:1'}]}}}\n",
		api, kind, annotations, spec, selector, podSpec)
}

const honour = "podrun.dev/replicas: honour"

func podNames(o *Objects) string {
	var out []string
	for _, p := range o.Pods {
		out = append(out, p.Object.Name)
	}
	return strings.Join(out, " ")
}

func TestReplicas(t *testing.T) {
	scaled := func(kind string, id identity.Pod) (int32, bool) { return 2, kind == "Deployment" && id.Name == "web" }
	for name, c := range map[string]struct {
		text string
		opts Options
		want string // the names of the pods
	}{
		"off":                       {replicatedText("Deployment", "", "replicas: 3,", ""), Options{}, "web"},
		"annotation":                {replicatedText("Deployment", honour, "replicas: 3,", ""), Options{}, "web web-1 web-2"},
		"replica set":               {replicatedText("ReplicaSet", honour, "replicas: 2,", ""), Options{}, "web web-1"},
		"controller":                {replicatedText("ReplicationController", honour, "replicas: 2,", ""), Options{}, "web web-1"},
		"daemon set":                {replicatedText("DaemonSet", honour, "", ""), Options{}, "web"},
		"setting":                   {replicatedText("Deployment", "", "replicas: 2,", ""), Options{HonourReplicas: true}, "web web-1"},
		"setting, but ignored":      {replicatedText("Deployment", "podrun.dev/replicas: ignore", "replicas: 2,", ""), Options{HonourReplicas: true}, "web"},
		"none":                      {replicatedText("Deployment", honour, "replicas: 0,", ""), Options{}, ""},
		"the API's default":         {replicatedText("Deployment", honour, "", ""), Options{}, "web"},
		"scaled":                    {replicatedText("Deployment", honour, "", ""), Options{Scaled: scaled}, "web web-1"},
		"scaled, but written":       {replicatedText("Deployment", honour, "replicas: 1,", ""), Options{Scaled: scaled}, "web"},
		"another kind is scaled":    {replicatedText("ReplicaSet", honour, "", ""), Options{Scaled: scaled}, "web"},
		"one pod with a host port":  {strings.Replace(replicatedText("Deployment", honour, "", ""), "image: 'a:1'", "image: 'a:1', ports: [{containerPort: 1, hostPort: 1}]", 1), Options{}, "web"},
		"host network without port": {replicatedText("Deployment", honour, "replicas: 2,", "hostNetwork: true,"), Options{}, "web web-1"},
	} {
		objects, problems := load(t, c.text, c.opts)
		if got := podNames(objects); got != c.want {
			t.Errorf("%s: pods %q, want %q; problems %v", name, got, c.want, problems)
		}
		for i, p := range objects.Pods {
			if p.Definition.WorkloadName(p.Object.Name) != "web" || p.Object.Namespace != "shop" || p.Object.Labels["app"] != "web" {
				t.Errorf("%s: pod %d is %s of %s", name, i, p.Object.Name, p.Definition.Workload)
			}
			if index, ok := ReplicaIndex("web", p.Object.Name); index != i || !ok {
				t.Errorf("%s: pod %d has the index %d", name, i, index)
			}
		}
		if honours := len(objects.Workloads) > 0; honours && objects.Workloads[0].ID() != (identity.Pod{Namespace: "shop", Name: "web"}) || honours && !objects.Workloads[0].First.Definition.Honours() {
			t.Errorf("%s: workload %+v", name, objects.Workloads[0])
		}
	}
}

func TestReplicaProblems(t *testing.T) {
	const port = "image: 'a:1', ports: [{containerPort: 80%s}]"
	pod := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop}\nspec: {containers: [{name: app, image: 'a:1'}]}\n"
	two := replicatedText("Deployment", honour, "replicas: 2,", "")
	for name, c := range map[string]struct{ text, want string }{
		"host port": {strings.Replace(two, "image: 'a:1'", fmt.Sprintf(port, ", hostPort: 8080"), 1), "spec.template.spec.containers[0].ports[0].hostPort: 2 replicas cannot use the same port 8080"},
		"host network": {strings.Replace(replicatedText("Deployment", honour, "replicas: 2,", "hostNetwork: true,"), "image: 'a:1'", fmt.Sprintf(port, ""), 1),
			"spec.template.spec.containers[0].ports[0].containerPort: 2 replicas cannot use the same port 80"},
		"value":                  {replicatedText("Deployment", "podrun.dev/replicas: 'yes'", "", ""), `metadata.annotations[podrun.dev/replicas]: "yes" is not honour or ignore`},
		"a pod of the name":      {strings.TrimPrefix(pod, "---\n") + "---\n" + two, "spec.replicas: the pod of replica 1, web-1, is defined twice (first at line 3)"},
		"a later pod":            {two + pod, "Pod shop/web-1: metadata.name: defined twice (first at line 1)"},
		"a negative number":      {replicatedText("Deployment", honour, "replicas: -1,", ""), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		"too many":               {replicatedText("Deployment", honour, "replicas: 1001,", ""), "more than 1000 pods"},
		"a huge number":          {replicatedText("Deployment", honour, "replicas: 2147483647,", ""), "more than 1000 pods"},
		"ordinals of a set":      {replicatedText("StatefulSet", honour, "serviceName: s, ordinals: {start: 1},", ""), "spec.ordinals.start: the ordinals of podrun's replicas begin with 0"},
		"a Deployment named so ": {two + "---\n" + strings.Replace(two, "name: web,", "name: web-1,", 1), "defined twice"},
	} {
		_, problems := Load([]input.Source{{Name: "f", Data: []byte(c.text)}}, Options{})
		if got := problems.Errors().String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: problems\n%s\nwant %s", name, got, c.want)
		}
	}
}

// A StatefulSet gives its pods what the controller gives them, apart from the name of the first one.
func TestReplicasOfStatefulSet(t *testing.T) {
	text := replicatedText("StatefulSet", honour, "replicas: 2, serviceName: s, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],", "")
	objects, _ := load(t, text, Options{})
	if got := podNames(objects); got != "web web-1" {
		t.Fatal(got)
	}
	for i, p := range objects.Pods {
		name := fmt.Sprintf("web-%d", i)
		if p.Object.Spec.Hostname != name || p.Object.Spec.Subdomain != "s" || p.Object.Labels["statefulset.kubernetes.io/pod-name"] != name || p.Object.Labels["apps.kubernetes.io/pod-index"] != fmt.Sprint(i) {
			t.Errorf("pod %d: %+v %+v", i, p.Object.ObjectMeta, p.Object.Spec)
		}
		claim := "data-" + name
		if v := p.Object.Spec.Volumes; len(v) != 1 || v[0].PersistentVolumeClaim.ClaimName != claim || objects.Claims["shop/"+claim] == nil {
			t.Errorf("pod %d: volumes %+v", i, v)
		}
		// The workload, and therefore any number of pods, results from each of the pods.
		c := Referred(p.Object, objects)
		c.Definition = p.Definition
		again, problems := Scale(c, 3)
		if len(problems.Errors()) > 0 || podNames(again) != "web web-1 web-2" {
			t.Fatalf("scaled from pod %d: %s %s", i, podNames(again), problems)
		}
		if again.Claims["shop/data-web-2"] == nil || *again.Workloads[0].Written != 2 {
			t.Errorf("scaled from pod %d: %+v", i, again.Workloads[0])
		}
		for j, was := range objects.Pods {
			a, _ := json.Marshal(was.Object)
			b, _ := json.Marshal(again.Pods[j].Object)
			if string(a) != string(b) {
				t.Errorf("pod %d, scaled from pod %d:\n%s, want\n%s", j, i, b, a)
			}
		}
	}
}

// The second pod of a workload has the workload's name in its definition, which older releases ignore.
// The definition of the first pod is the same as without the annotation, apart from the annotation.
func TestReplicaDefinitions(t *testing.T) {
	objects, _ := load(t, replicatedText("Deployment", honour, "replicas: 2,", ""), Options{})
	plain, _ := load(t, replicatedText("Deployment", "", "replicas: 2,", ""), Options{})
	setting, _ := load(t, replicatedText("Deployment", "", "replicas: 2,", ""), Options{HonourReplicas: true})
	first, second := objects.Pods[0], objects.Pods[1]
	if got, want := string(first.Definition.Workload), strings.Replace(string(plain.Pods[0].Definition.Workload), `"metadata":{}`, `"metadata":{"annotations":{"podrun.dev/replicas":"honour"}}`, 1); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if !setting.Pods[0].Definition.Equal(first.Definition) {
		t.Errorf("by the setting: %s", setting.Pods[0].Definition.Workload)
	}
	o, err := WorkloadObject(second.Object, second.Definition)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(o)
	if again, _ := load(t, string(data), Options{}); podNames(again) != "web web-1" {
		t.Errorf("from the second pod: %s", data)
	}
	if StaticUID(first.Object, "n", "") != StaticUID(plain.Pods[0].Object, "n", "") {
		t.Error("the first pod gets another UID")
	}
}

func TestOtherWorkload(t *testing.T) {
	of := func(kind, name, pod string) *Definition {
		d := &Definition{Kind: kind, Workload: json.RawMessage(`{"metadata":{}}`)}
		if name != pod {
			d = d.named(name)
		}
		return d
	}
	for name, c := range map[string]struct {
		was, is *Definition
		want    string
	}{
		"the same replica":         {of("Deployment", "web", "web-1"), of("Deployment", "web", "web-1"), ""},
		"a pod becomes a replica":  {definedByPod(), of("Deployment", "web", "web-1"), "Pod web-1"},
		"a replica becomes a pod":  {of("Deployment", "web", "web-1"), definedByPod(), "Deployment web"},
		"another kind":             {of("StatefulSet", "web", "web-1"), of("Deployment", "web", "web-1"), "StatefulSet web"},
		"a Deployment of the name": {of("Deployment", "web-1", "web-1"), of("Deployment", "web", "web-1"), "Deployment web-1"},
		"an older release":         {nil, of("Deployment", "web", "web-1"), "an older version of podrun"},
		"two first replicas":       {of("Deployment", "web-1", "web-1"), of("StatefulSet", "web-1", "web-1"), ""},
		"an unknown definition":    {nil, nil, ""},
	} {
		if got := OtherWorkload("web-1", c.was, c.is); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestReplicaIndex(t *testing.T) {
	for pod, want := range map[string]int{"web": 0, "web-1": 1, "web-12": 12, "web-0": -1, "web-01": -1, "web-x": -1, "web-1-1": -1, "webs": -1, "web--1": -1, "web-+1": -1, "web-99999999999999999999": -1} {
		got, ok := ReplicaIndex("web", pod)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, want %d", pod, got, want)
		}
	}
}
