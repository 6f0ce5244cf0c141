package critest_test

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := critest.ForTest(t)
		rt.AddImage(critest.Image{Name: "busybox"})
		c := rt.Client()
		sc := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "n", Uid: "u"}, LogDirectory: t.TempDir()}
		id, err := c.RunPodSandbox(t.Context(), sc, "")
		if err != nil {
			t.Fatal(err)
		}
		cid, err := c.CreateContainer(t.Context(), id, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
			Command: []string{"sh", "-c", "echo hi; sleep 600; exit 3"}, LogPath: "app/0.log",
		}, sc)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StartContainer(t.Context(), cid); err != nil {
			t.Fatal(err)
		}
		time.Sleep(601 * time.Second)
		st, err := c.ContainerStatus(t.Context(), cid, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(st, rt.CallNames(), rt.Leaked())
		if st.GetStatus().GetExitCode() != 3 {
			t.Error("wrong code")
		}
	})
}
