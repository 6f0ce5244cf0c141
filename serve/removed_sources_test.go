package serve

import (
	"testing"

	"github.com/podrun/podrun/serve/nodeapi"
)

func TestDeleteCommands(t *testing.T) {
	got := deleteCommands([]nodeapi.KeptObject{{Namespace: "a", Object: "pod/web"}, {Namespace: "b", Object: "job/x"}, {Namespace: "a", Object: "service/web"}, {Namespace: "a", Object: "cronjob/c"}})
	if want := "'podrun delete -n a pod/web cronjob/c' and 'podrun delete -n b job/x' and 'podrun delete -n a service/web'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
