package manifest

import (
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest/input"
)

// FuzzLoad checks that for any input, Load returns without a panic, and either reports problems
// or returns at least one pod. Each pod must have the properties on which podrun relies. It has
// a name and a UID that is safe in a path. It does not change when its checkpoint is written
// and read.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		onePod, exported, head + "---\n" + head, "{a: b}\n{c: d}", "- [", "%YAML 1.1\n---\n" + head, "a: &a [*a]", "a: 1\na: 2", "\xff\xfe", "--- |0",
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, problems := Load([]input.Source{{Name: "f", Data: data}}, Options{Suffix: func() string { return "abcde" }})
		if len(problems.Errors()) > 0 {
			return
		}
		if len(objects.Pods) == 0 {
			t.Fatal("no pod, and no problem")
		}
		for _, p := range objects.Pods {
			if p.Object.Name == "" || p.Object.Namespace == "" || p.Position.Line < 1 {
				t.Errorf("pod %q of namespace %q at line %d", p.Object.Name, p.Object.Namespace, p.Position.Line)
			}
			uid := UID(p.Object, "node", "")
			if !identity.SafeUID(uid) {
				t.Errorf("unsafe UID %q", uid)
			}
			text, err := Checkpoint{Pod: p.Object}.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			back, err := Unmarshal(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if UID(back.Pod, "node", "") != uid {
				t.Errorf("the UID changed in the checkpoint\n%s", text)
			}
		}
	})
}
