package volume

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/credential"
)

// TestCredentials checks that a key of a Secret that is a credential becomes a file, and that its value is only in the
// files that podrun writes, not in the plan.
func TestCredentials(t *testing.T) {
	in := input(podOf(t, `
containers: [{name: app}]
volumes:
- {name: all, secret: {secretName: db}}
- {name: one, secret: {secretName: db, items: [{key: password, path: deep/p, mode: 0400}]}}
- {name: projected, projected: {sources: [{secret: {name: db}}]}}
`))
	in.Secrets = map[string]*corev1.Secret{"db": {Data: map[string][]byte{"user": []byte("me")},
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{credential.Annotation + "password": "sealed-db"}}}}
	plan, problems := New(in)
	if len(problems) > 0 || !plan.Slow() || !plan.DependsOnHost() {
		t.Fatalf("%v, slow %v", problems, plan.Slow())
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("systemd-creds", "#!/bin/sh\ncat \"$4\"\n")
	defer func(before credential.Store) { credential.Host = before }(credential.Host)
	credential.Host = credential.Store{Dir: dir, Program: filepath.Join(dir, "systemd-creds")}
	for i, want := range []string{"password=hunter2 user=me", "deep/p=hunter2", "password=hunter2 user=me"} {
		files := plan.Volumes[i].Setup.Files.Files
		write("sealed-db", "hunter2")
		written, err := unsealed(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range written {
			got = append(got, f.Path+"="+string(f.Data))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
		printed, err := json.Marshal(plan)
		if err != nil || strings.Contains(string(printed), "hunter2") || !strings.Contains(string(printed), `"credential":"sealed-db"`) || len(files[0].Data) > 0 {
			t.Errorf("the plan has the value: %s, %v", printed, err)
		}
		if err := os.Remove(filepath.Join(dir, "sealed-db")); err != nil {
			t.Fatal(err)
		}
		if _, err := unsealed(t.Context(), files); err == nil || !strings.Contains(err.Error(), "credential sealed-db") {
			t.Errorf("a missing credential: %v", err)
		}
	}
}
