package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/ring"
)

// TestTokenFiles checks the owner, the group and the mode of files with service account tokens. The expected
// values are the kubelet's (pkg/volume/projected, TestSetupServiceAccountToken of test/e2e/auth).
func TestTokenFiles(t *testing.T) {
	ring.RequireRoot(t)
	const volume = `
volumes: [{name: token, projected: {defaultMode: 420, sources: [{secret: {name: token, items: [{key: token, path: token}]}}, {secret: {name: plain}}]}}]`
	for name, c := range map[string]struct {
		spec     string
		mode     os.FileMode
		uid, gid uint32
	}{
		"no user":                {`containers: [{name: a}]`, 0o644, 0, 0},
		"user of the pod":        {`{securityContext: {runAsUser: 1000}, containers: [{name: a}]}`, 0o600, 1000, 0},
		"root":                   {`{securityContext: {runAsUser: 0}, containers: [{name: a}]}`, 0o600, 0, 0},
		"same user":              {`{initContainers: [{name: i, securityContext: {runAsUser: 7}}], containers: [{name: a, securityContext: {runAsUser: 7}}]}`, 0o600, 7, 0},
		"two users":              {`containers: [{name: a, securityContext: {runAsUser: 7}}, {name: b, securityContext: {runAsUser: 8}}]`, 0o644, 0, 0},
		"user of one container":  {`containers: [{name: a, securityContext: {runAsUser: 7}}, {name: b}]`, 0o644, 0, 0},
		"user of an init only":   {`{initContainers: [{name: i, securityContext: {runAsUser: 7}}], containers: [{name: a}]}`, 0o644, 0, 0},
		"ephemeral is ignored":   {`{containers: [{name: a, securityContext: {runAsUser: 7}}], ephemeralContainers: [{name: e, securityContext: {runAsUser: 8}}]}`, 0o600, 7, 0},
		"group":                  {`{securityContext: {fsGroup: 2000}, containers: [{name: a}]}`, 0o640, 0, 2000},
		"group and two users":    {`{securityContext: {fsGroup: 2000}, containers: [{name: a, securityContext: {runAsUser: 7}}, {name: b, securityContext: {runAsUser: 8}}]}`, 0o640, 0, 2000},
		"group and user of both": {`{securityContext: {fsGroup: 2000, runAsUser: 1000}, containers: [{name: a}]}`, 0o640, 1000, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, c.spec)
			pod.Spec.Volumes = podOf(t, volume).Spec.Volumes
			in := input(pod)
			in.Secrets = map[string]*corev1.Secret{
				"token": {Type: identity.TokenSecretType, Data: map[string][]byte{"token": []byte("secret")}},
				"plain": {Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"plain": []byte("text")}},
			}
			plan, problems := New(in)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			dir := t.TempDir()
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			v := plan.Volumes[0]
			if err := (&publisher{ctx: t.Context(), dir: fd, files: v.Setup.Files.Files, gid: v.FSGroup}).publish(); err != nil {
				t.Fatal(err)
			}
			wantOwner(t, filepath.Join(dir, "token"), c.mode, c.uid, c.gid)
			wantOwner(t, filepath.Join(dir, "plain"), 0o644, 0, c.gid)
		})
	}
}

func wantOwner(t *testing.T, path string, mode os.FileMode, uid, gid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode() != mode || st.Uid != uid || st.Gid != gid {
		t.Errorf("%s: %v %d:%d, want %v %d:%d", filepath.Base(path), info.Mode(), st.Uid, st.Gid, mode, uid, gid)
	}
}
