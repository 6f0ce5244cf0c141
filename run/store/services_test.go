package store

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
)

func TestServices(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	if list, faults, err := ReadServices(layout); len(list) > 0 || faults != nil || err != nil || HasServices(layout) {
		t.Errorf("%v, %v, %v", list, faults, err)
	}
	for _, name := range []string{"web", "db"} {
		r := ServiceRecord{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}, Origin: "/m/" + name}
		if err := WriteService(layout, r); err != nil {
			t.Fatal(err)
		}
	}
	list, faults, err := ReadServices(layout)
	if len(list) != 2 || faults != nil || err != nil || list[0].Service.Name != "db" || list[0].Origin != "/m/db" || !HasServices(layout) {
		t.Errorf("%v, %v, %v", list, faults, err)
	}
	// A corrupt record, or a record under the wrong file name, must not hide the other records.
	for file, text := range map[string]string{"shop_web": "# podrun schema 1\n{", "shop_copy": `{"service":{"metadata":{"namespace":"shop","name":"db"}}}`} {
		if err := os.WriteFile(string(layout.Services())+"/"+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, faults, err := ReadServices(layout); len(list) != 1 || len(faults) != 2 || err != nil {
		t.Errorf("%v, %v, %v", list, faults, err)
	}
	for range 2 {
		if err := RemoveService(layout, "shop", "db"); err != nil {
			t.Error(err)
		}
	}
	if list, _, _ := ReadServices(layout); len(list) != 0 {
		t.Errorf("%v", list)
	}
}
