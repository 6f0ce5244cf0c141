package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// feature is a field of a pod and its effect in a container.
type feature struct {
	name  string
	flags []string // flags of podrun run
	with  string   // other objects in the input
	// part of the pod's spec, in which IMAGE is replaced
	spec string
	// a regular expression for the output of the containers
	want string
	// refused is the expected error if the runtime or the host does not support the feature.
	refused string
}

// same returns a pattern that matches the host's namespace, and other returns one that matches any
// other namespace.
func same(kind string) string  { return regexp.QuoteMeta(namespace(kind)) }
func other(kind string) string { return kind + `:\[[0-9]+\]` }

func namespace(kind string) string {
	link, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		panic(err)
	}
	return link
}

const namespaces = "containers: [{name: app, image: IMAGE, command: [sh, -c, 'for n in pid ipc net; do readlink /proc/self/ns/$n; done']}]"

func features() []feature {
	return []feature{
		{name: "own namespaces", spec: namespaces, want: other("pid") + "\n" + other("ipc") + "\n" + other("net") + "\n"},
		{name: "hostPID", spec: "hostPID: true\n  " + namespaces, want: same("pid") + "\n" + other("ipc") + "\n" + other("net") + "\n"},
		{name: "hostIPC", spec: "hostIPC: true\n  " + namespaces, want: other("pid") + "\n" + same("ipc") + "\n" + other("net") + "\n"},
		{name: "hostNetwork", spec: "hostNetwork: true\n  " + namespaces, want: other("pid") + "\n" + other("ipc") + "\n" + same("net") + "\n"},
		{name: "shareProcessNamespace", spec: "shareProcessNamespace: true\n  containers: [{name: app, image: IMAGE, command: [cat, /proc/1/comm]}]", want: "pause\n"},
		{name: "an own process namespace", spec: "containers: [{name: app, image: IMAGE, command: [cat, /proc/1/comm]}]", want: "cat\n"},
		{name: "seccomp Unconfined", spec: "containers: [{name: app, image: IMAGE, command: [grep, '^Seccomp:', /proc/1/status]}]", want: "Seccomp:\t0\n"},
		{name: "seccomp RuntimeDefault", spec: "securityContext: {seccompProfile: {type: RuntimeDefault}}\n  containers: [{name: app, image: IMAGE, command: [grep, '^Seccomp:', /proc/1/status]}]", want: "Seccomp:\t2\n"},
		{name: "seccompDefault", flags: []string{"--seccomp-default"}, spec: "containers: [{name: app, image: IMAGE, command: [grep, '^Seccomp:', /proc/1/status]}]", want: "Seccomp:\t2\n"},
		{name: "seccomp Localhost", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'mkdir /x || echo no'], securityContext: {seccompProfile: {type: Localhost, localhostProfile: no-mkdir.json}}}]", want: "no\n"},
		{name: "allowPrivilegeEscalation", spec: "containers: [{name: app, image: IMAGE, command: [grep, NoNewPrivs, /proc/1/status], securityContext: {allowPrivilegeEscalation: false}}]", want: "NoNewPrivs:\t1\n"},
		{name: "privileged", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'test -w /proc/sys/kernel/domainname && test -c /dev/kmsg && echo all of it'], securityContext: {privileged: true}}]", want: "all of it\n"},
		{name: "masked and read-only paths", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'wc -c < /proc/timer_list; touch /proc/sys/kernel/domainname || echo read-only']}]", want: "0\n(.*\n)?read-only\n"},
		{name: "readOnlyRootFilesystem", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'touch /x 2>&1'], securityContext: {readOnlyRootFilesystem: true}}]", want: "touch: /x: Read-only file system\n"},
		{name: "users and groups", spec: "securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [3000], fsGroup: 4000}\n  containers: [{name: app, image: IMAGE, command: [sh, -c, 'id -u; id -G; touch /v/x; stat -c %g /v/x'], volumeMounts: [{name: v, mountPath: /v}]}]\n  volumes: [{name: v, emptyDir: {}}]", want: "1000\n2000 3000 4000\n4000\n|1000\n2000 4000 3000\n4000\n"},
		{name: "supplementalGroupsPolicy Merge", spec: "securityContext: {supplementalGroups: [3000]}\n  containers: [{name: app, image: IMAGE, command: [id, -G]}]", want: "0 .*3000\n"},
		{name: "supplementalGroupsPolicy Strict", spec: "securityContext: {supplementalGroups: [3000], supplementalGroupsPolicy: Strict}\n  containers: [{name: app, image: IMAGE, command: [id, -G]}]", want: "0 3000\n", refused: "SupplementalGroupsPolicy=Strict is not supported"},
		{name: "sysctls", spec: "securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: '80'}]}\n  containers: [{name: app, image: IMAGE, command: [cat, /proc/sys/net/ipv4/ip_unprivileged_port_start]}]", want: "80\n"},
		{name: "tty", spec: "containers: [{name: app, image: IMAGE, tty: true, command: [sh, -c, 'test -t 1 && echo a terminal']}]", want: "a terminal\r?\n"},
		{name: "no tty, no stdin", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'test -t 1 || echo none; cat; echo at its end']}]", want: "none\nat its end\n"},
		{name: "stdin", spec: "containers: [{name: app, image: IMAGE, stdin: true, stdinOnce: true, command: [sh, -c, 'timeout 1 cat; echo $?']}]", want: "143\n"},
		{name: "setHostnameAsFQDN", flags: []string{"--cluster-domain", "cluster.local"}, spec: "hostname: web\n  subdomain: sub\n  setHostnameAsFQDN: true\n  containers: [{name: app, image: IMAGE, command: [hostname]}]", want: "web.sub.e2e.svc.cluster.local\n"},
		{name: "hostnameOverride", spec: "hostnameOverride: some.other.name\n  containers: [{name: app, image: IMAGE, command: [hostname]}]", want: "some.other.name\n"},
		{name: "hostAliases", spec: "hostAliases: [{ip: 192.0.2.9, hostnames: [a, b]}]\n  containers: [{name: app, image: IMAGE, command: [grep, 192.0.2.9, /etc/hosts]}]", want: "192.0.2.9\ta\tb\n"},
		{name: "dnsConfig", spec: "dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.1], searches: [s], options: [{name: ndots, value: '3'}]}\n  containers: [{name: app, image: IMAGE, command: [cat, /etc/resolv.conf]}]", want: "search s\nnameserver 192.0.2.1\noptions ndots:3\n"},
		{name: "runtimeClassName", with: "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: c}, handler: runc}", spec: "runtimeClassName: c\n  containers: [{name: app, image: IMAGE, command: [echo, ran]}]", want: "ran\n"},
		{name: "runtimeClassName of another", with: "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: c}, handler: absent}", spec: "runtimeClassName: c\n  containers: [{name: app, image: IMAGE, command: [echo, ran]}]", want: "never", refused: `absent"`},
		{name: "hostUsers", spec: "hostUsers: false\n  containers: [{name: app, image: IMAGE, command: [cat, /proc/self/uid_map]}]", want: " *0 +65536 +65536\n", refused: "does not support user namespaces"},
		{name: "procMount", spec: "hostUsers: false\n  containers: [{name: app, image: IMAGE, command: [sh, -c, 'grep -c \" /proc/\" /proc/self/mounts; id -u'], securityContext: {procMount: Unmasked}}]", want: "0\n0\n", refused: "does not support user namespaces"},
		{name: "recursiveReadOnly", spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'touch /v/x 2>&1'], volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]}]\n  volumes: [{name: v, emptyDir: {}}]", want: "touch: /v/x: Read-only file system\n", refused: "does not support recursive read-only mounts"},
		{name: "volumeDevices", with: blockVolume, spec: "containers: [{name: app, image: IMAGE, command: [sh, -c, 'test -b /dev/x && echo a block device'], volumeDevices: [{name: v, devicePath: /dev/x}]}]\n  volumes: [{name: v, persistentVolumeClaim: {claimName: block}}]", want: "a block device\n", refused: "/dev/loop0"},
		{name: "hugepages", spec: "containers: [{name: app, image: IMAGE, resources: {limits: {hugepages-2Mi: 4Mi, memory: 16Mi, cpu: 100m}}, command: [sh, -c, 'grep -c hugetlbfs.*pagesize=2M /proc/self/mounts'], volumeMounts: [{name: v, mountPath: /v}]}]\n  volumes: [{name: v, emptyDir: {medium: HugePages}}]", want: "1\n", refused: "hugepages-2Mi"},
	}
}

const blockVolume = `{apiVersion: v1, kind: PersistentVolume, metadata: {name: block}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: "", hostPath: {path: /dev/loop0}, claimRef: {namespace: e2e, name: block}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: block, namespace: e2e}, spec: {accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: "", volumeName: block, resources: {requests: {storage: 1Gi}}}}`

// TestFeatures runs a pod for each feature and checks its effect in the containers.
func TestFeatures(t *testing.T) {
	ring.Require(t, 2)
	t.Parallel()
	r := newRig(t)
	if err := os.MkdirAll(filepath.Join(r.dir, "root", "seccomp"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("root/seccomp/no-mkdir.json", `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}`)
	for _, f := range features() {
		t.Run(f.name, func(t *testing.T) {
			name := "feature-" + strings.Map(func(c rune) rune {
				if c >= 'a' && c <= 'z' {
					return c
				}
				return -1
			}, strings.ToLower(f.name))
			pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n"
			if !strings.Contains(f.spec, "dnsPolicy") {
				pod += "  dnsPolicy: Default\n"
			}
			file := r.pod(name, pod+"  "+f.spec+"\n---\n"+f.with)
			out, said, err := r.run(append([]string{"run", "--quiet", "--exit-code-policy", "none", file}, f.flags...)...)
			if err != nil && f.refused != "" && strings.Contains(said, f.refused) && out == "" {
				t.Logf("not supported on this host: %s", strings.TrimSpace(said))
				return
			}
			if err != nil || !regexp.MustCompile("^(?:"+f.want+")$").MatchString(out) {
				t.Errorf("it printed %q, want %q; %v\n%s", out, f.want, err, said)
			}
		})
	}
}

// TestStopSignal covers the feature gate that allows a container to specify its stop signal
// (KEP-4960). If the runtime is too old, podrun must print a warning.
func TestStopSignal(t *testing.T) {
	ring.Require(t, 2)
	t.Parallel()
	r := newRig(t)
	config := r.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {ContainerStopSignals: true}\n")
	file := r.pod("stops", "apiVersion: v1\nkind: Pod\nmetadata: {name: stops}\nspec:\n  os: {name: linux}\n  dnsPolicy: Default\n  terminationGracePeriodSeconds: 60\n"+
		"  containers:\n  - {name: app, image: IMAGE, lifecycle: {stopSignal: SIGUSR1}, volumeMounts: [{name: v, mountPath: /v}], "+
		"command: [sh, -c, 'for s in USR1 TERM; do trap \"echo $s > /v/signal; exit 0\" $s; done; echo up; while :; do sleep 0.1; done']}\n"+
		"  volumes: [{name: v, hostPath: {path: OUT, type: DirectoryOrCreate}}]\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(r.dir, "out")
	r.write("stops.yaml", strings.Replace(string(text), "OUT", out, 1))
	_, said, err := r.run("apply", "--config", config, file)
	if err != nil {
		t.Fatal(err, said)
	}
	r.until("stops", "up")
	r.must("delete", "stops")
	want := "USR1\n"
	if strings.Contains(said, "stops containers with their image's signal") {
		want = "TERM\n"
	}
	if got, err := os.ReadFile(filepath.Join(out, "signal")); string(got) != want {
		t.Errorf("it was stopped with %q, %v; want %q\n%s", got, err, want, said)
	}
}

// run runs podrun and returns stdout and stderr separately.
func (r *rig) run(args ...string) (out, said string, err error) {
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := patience.Command(ctx, program, args...)
	c.Env = r.env()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	return stdout.String(), stderr.String(), err
}
