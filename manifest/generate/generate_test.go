package generate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPod(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags PodFlags
		want  string
	}{
		{"image", PodFlags{Image: "example.com/team/Busy_box:1.36@sha256:0", Unique: true},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"busy-box-","labels":{"run":"busy-box"}},"spec":{"containers":[{"image":"example.com/team/Busy_box:1.36@sha256:0","name":"busy-box"}]}}`},
		{"all", PodFlags{Name: "web", Image: "nginx", Args: []string{"a"}, Entrypoint: "sh", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
			Ports: []string{"8080:80", "127.0.0.1:53:53/udp", "[::1]:1:2", "9"}, Volumes: []string{"/a:/b:ro", "./src:/src", "data:/data", "/tmp"},
			Labels: []string{"a=b,c=d"}, Notes: []string{"e=f"}, CPUs: "1.5", Memory: "64m", Restart: corev1.RestartPolicyNever, Pull: corev1.PullAlways,
			WorkDir: "/w", User: "1:2", Hostname: "h", Network: "host", CapAdd: []string{"cap_net_admin"}, CapDrop: []string{"ALL"},
			Privileged: true, ReadOnly: true, Init: true, Stdin: true, TTY: true, CurrentDir: "/here"},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"e":"f"},"labels":{"a":"b","c":"d"},"name":"web"},"spec":{"containers":[{"args":["a"],"command":["sh"],"env":[{"name":"A","value":"b"}],"image":"nginx","imagePullPolicy":"Always","name":"web",` +
				`"ports":[{"containerPort":80,"hostPort":8080},{"containerPort":53,"hostIP":"127.0.0.1","hostPort":53,"protocol":"UDP"},{"containerPort":2,"hostIP":"::1","hostPort":1},{"containerPort":9}],` +
				`"resources":{"limits":{"cpu":"1500m","memory":"64Mi"}},"securityContext":{"capabilities":{"add":["NET_ADMIN"],"drop":["ALL"]},"privileged":true,"readOnlyRootFilesystem":true,"runAsGroup":2,"runAsUser":1},"stdin":true,"stdinOnce":true,"tty":true,` +
				`"volumeMounts":[{"mountPath":"/b","name":"volume-1","readOnly":true},{"mountPath":"/src","name":"volume-2"},{"mountPath":"/data","name":"volume-3"},{"mountPath":"/tmp","name":"volume-4"}],"workingDir":"/w"}],` +
				`"hostNetwork":true,"hostname":"h","restartPolicy":"Never","shareProcessNamespace":true,"volumes":[{"hostPath":{"path":"/a"},"name":"volume-1"},{"hostPath":{"path":"/here/src"},"name":"volume-2"},{"name":"volume-3","persistentVolumeClaim":{"claimName":"data"}},{"emptyDir":{},"name":"volume-4"}]}}`},
		{"ranges", PodFlags{Name: "x", Image: "y", Ports: []string{"127.0.0.1:8000-8001:80-81/udp", "5-6"}},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"run":"x"},"name":"x"},"spec":{"containers":[{"image":"y","name":"x","ports":[` +
				`{"containerPort":80,"hostIP":"127.0.0.1","hostPort":8000,"protocol":"UDP"},{"containerPort":81,"hostIP":"127.0.0.1","hostPort":8001,"protocol":"UDP"},{"containerPort":5},{"containerPort":6}]}]}}`},
		{"command", PodFlags{Name: "x", Image: "y", AsCommand: true, Args: []string{"a", "b"}},
			`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"run":"x"},"name":"x"},"spec":{"containers":[{"command":["a","b"],"image":"y","name":"x"}]}}`},
	} {
		pod, err := tc.flags.Pod()
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got, err := Manifest(pod); err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tc.name, err, got, tc.want)
		}
	}
}

func TestPodErrors(t *testing.T) {
	f := PodFlags{Image: "x", CPUs: "many", Memory: "1e-99999999", User: "root", Network: "web", WorkDir: "srv", Ports: []string{"80:x", "0", "80:90:100:1", "300.1.1.1:90:100", "80-82:80-81", "8-7", "1-", "1-2000"}, Volumes: []string{"a:b", "/a:/b:q", "~/a:/b"}, Labels: []string{"=b"}}
	_, err := f.Pod()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--cpus=many", "--memory=1e-99999999", "--user=root", "--network=web", "--publish=80:x", "--publish=80-82:80-81: the ranges of ports have different lengths", "--publish=8-7", "--publish=1- is", "--publish=1-2000: the range has more than 1000 ports", "--workdir=srv is not an absolute path", "--publish=0", "--publish=80:90:100:1", "--publish=300.1.1.1:90:100", "--volume=a:b", `option "q"`, "use $HOME", "--labels==b"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestMemory(t *testing.T) {
	for given, want := range map[string]string{"64m": "64Mi", "64MB": "64Mi", "1g": "1Gi", "512k": "512Ki", "512b": "512", "64Mi": "64Mi", "1024": "1024", "1e6": "1e6"} {
		if got := memory(given); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

func TestEnv(t *testing.T) {
	known := func(name string) (string, bool) { return "of " + name, name == "TOKEN" }
	env, err := Env([]string{"A=b=c", "TOKEN", "NONE", "E="}, known)
	want := []corev1.EnvVar{{Name: "A", Value: "b=c"}, {Name: "TOKEN", Value: "of TOKEN"}, {Name: "E"}}
	if err != nil || len(env) != len(want) {
		t.Fatalf("%v: %v", err, env)
	}
	for i := range want {
		if env[i] != want[i] {
			t.Errorf("%v, want %v", env[i], want[i])
		}
	}
	if _, err := Env([]string{"=b"}, known); err == nil {
		t.Error("an empty name is accepted")
	}
	if got := Lines("\ufeffA=b \r\n\n # comment\n  C\n"); strings.Join(got, "|") != "A=b |C" {
		t.Errorf("%q", got)
	}
}

func TestWorkloads(t *testing.T) {
	f := WorkloadFlags{Name: "web", Images: []string{"nginx:1", "x/nginx"}, Port: 80, Replicas: 2, Schedule: "* * * * *"}
	for want, object := range map[string]any{
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"nginx:1","name":"nginx","ports":[{"containerPort":80}]},{"image":"x/nginx","name":"nginx-2"}]}}}}`: f.Deployment(),
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"},{"image":"x/nginx","name":"web"}],"restartPolicy":"Never"}}}}`:                                                                                                                                     f.Job(),
		`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"web"},"spec":{"jobTemplate":{"metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"image":"nginx:1","name":"web"},{"image":"x/nginx","name":"web"}],"restartPolicy":"OnFailure"}}}},"schedule":"* * * * *"}}`:                                                   f.CronJob(),
	} {
		if got, err := Manifest(object); err != nil || string(got) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
}

func TestData(t *testing.T) {
	d := NewData()
	for _, pair := range []string{"a=b=c", "empty="} {
		if err := d.AddPair("from-literal", pair); err != nil {
			t.Error(err)
		}
	}
	if err := d.Add("bin", []byte{0xff}); err != nil {
		t.Error(err)
	}
	for _, pair := range []string{"a=again", "b", "=c", "x/y=z"} {
		if err := d.AddPair("from-literal", pair); err == nil {
			t.Errorf("%s is accepted", pair)
		}
	}
	m := d.ConfigMap("c")
	if m.Data["a"] != "b=c" || m.BinaryData["bin"][0] != 0xff || len(m.Data) != 2 {
		t.Errorf("%v", m)
	}
	s, err := Registry{Username: "u", Password: "p"}.Secret("r")
	if err != nil || string(s.Data[corev1.DockerConfigJsonKey]) != `{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw","password":"p","username":"u"}}}` {
		t.Errorf("%v: %s", err, s.Data[corev1.DockerConfigJsonKey])
	}
	if _, err := TLSSecret("t", []byte("x"), nil); err == nil {
		t.Error("an invalid certificate is accepted")
	}
}
