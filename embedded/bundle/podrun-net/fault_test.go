package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// The environment variables of a plugin that a test kills: the step, as STEP#N, and a file
// to which the plugin appends each step.
const (
	killEnv  = "PODRUN_NET_KILL"
	stepsEnv = "PODRUN_NET_STEPS"
)

// killAtStep makes the plugin kill itself at the step that the environment names.
func killAtStep() {
	seen := map[string]int{}
	fault = func(step string) {
		seen[step]++
		name := fmt.Sprintf("%s#%d", step, seen[step])
		if file := os.Getenv(stepsEnv); file != "" {
			f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err == nil {
				_, err = f.WriteString(name + "\n")
			}
			if err != nil {
				panic(err)
			}
			f.Close()
		}
		if os.Getenv(killEnv) == name {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// steps returns the steps of a call that succeeds.
func (w *wholeNet) steps(command string, p *pod) []string {
	w.t.Helper()
	file := w.t.TempDir() + "/steps"
	w.env = []string{stepsEnv + "=" + file}
	w.must(command, p, w.config(ports(portMapping{8080, 80, "tcp", ""})))
	w.env = nil
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// killed calls the plugin, which is killed at a step.
func (w *wholeNet) killed(command string, p *pod, step string) {
	w.t.Helper()
	w.env = []string{killEnv + "=" + step}
	out, errs, err := w.call(command, p, w.config(ports(portMapping{8080, 80, "tcp", ""})))
	w.env = nil
	if err == nil || !strings.Contains(err.Error(), "killed") {
		w.t.Fatalf("%s is not killed at %s: %v\n%s%s", command, step, err, out, errs)
	}
}

// recoveries are the ways in which leftovers of a killed call are removed.
var recoveries = map[string]func(*wholeNet, *pod){
	"DEL":                   func(w *wholeNet, p *pod) { w.detach(p) },
	"DEL without namespace": func(w *wholeNet, p *pod) { w.mustIn("", "DEL", p, w.config(nil)) },
	"GC": func(w *wholeNet, p *pod) {
		w.must("GC", nil, w.config(map[string]any{"cni.dev/valid-attachments": []any{}}))
	},
	"GC after the namespace's end": func(w *wholeNet, p *pod) {
		w.do(func() { // as the kernel removes the pair together with the namespace
			if l, err := netlink.LinkByName(vethName(p.id + "/eth0")); err == nil {
				if err := netlink.LinkDel(l); err != nil {
					w.t.Error(err)
				}
			}
		})
		w.must("GC", nil, w.config(map[string]any{"cni.dev/valid-attachments": []any{}, "podrun.dev/only-unused": true}))
	},
	"ADD again, and DEL": func(w *wholeNet, p *pod) {
		again := w.config(ports(portMapping{8080, 80, "tcp", ""}))
		if out, _, err := w.call("ADD", p, again); err != nil {
			if !strings.Contains(out, "run DEL") {
				w.t.Errorf("ADD: %v: %s", err, out)
			}
			w.detach(p)
			w.must("ADD", p, again)
		}
		w.detach(p)
	},
}

func (h *testHost) mustIn(netns, command string, p *pod, config map[string]any) {
	h.t.Helper()
	if out, errs, err := h.callIn(netns, command, p, config); err != nil {
		h.t.Fatalf("%s: %v\n%s%s", command, err, out, errs)
	}
}

// TestKilledAtEachStep kills ADD and DEL at each of their steps. Every way of recovery
// removes everything, and another sandbox's attachment is unaffected.
func TestKilledAtEachStep(t *testing.T) {
	w := newWhole(t)
	p := w.sandbox()
	adds := w.steps("ADD", p)
	dels := w.steps("DEL", p)
	t.Logf("ADD: %q\nDEL: %q", adds, dels)
	if len(adds) < 11 || len(dels) != 6 {
		t.Errorf("%d steps of ADD, %d of DEL", len(adds), len(dels))
	}
	for name, recovers := range recoveries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWhole(t)
			for i, step := range adds {
				if strings.HasPrefix(step, "bridge/") && i > 1 {
					continue
				}
				p := w.sandbox()
				w.removeBridge()
				w.killed("ADD", p, step)
				recovers(w, p)
				if w.empty(); t.Failed() {
					t.Fatalf("after a kill of ADD at %s", step)
				}
			}
			for _, step := range dels {
				p := w.sandbox()
				w.attach(p, ports(portMapping{8080, 80, "tcp", ""}))
				w.killed("DEL", p, step)
				recovers(w, p)
				if w.empty(); t.Failed() {
					t.Fatalf("after a kill of DEL at %s", step)
				}
			}
		})
	}
}

// TestServicesKilledAtEachStep kills the command services at each of its steps. podrun calls the command again
// if the kernel does not have the rules that it wants (sandbox/cni.SetServices).
func TestServicesKilledAtEachStep(t *testing.T) {
	t.Parallel()
	h, server, client := serviceHost(t)
	server.serve("tcp", ":8080")
	set, empty := services(forwarded("tcp", 80, 8080, server)...), services()
	steps := func(table serviceTable) []string {
		t.Helper()
		file := t.TempDir() + "/steps"
		if _, errs, err := h.setServices(table, stepsEnv+"="+file); err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
	sets, removals := steps(set), steps(empty)
	t.Logf("set: %q\nremove: %q", sets, removals)
	if len(sets) < 4 || len(removals) < 4 {
		t.Errorf("%d steps to set rules, %d to remove them", len(sets), len(removals))
	}
	killed := func(table serviceTable, step string) {
		t.Helper()
		if out, errs, err := h.setServices(table, killEnv+"="+step); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("services is not killed at %s: %v\n%s%s", step, err, out, errs)
		}
	}
	for _, step := range sets {
		killed(set, step)
		if step == sets[len(sets)-1] && h.serviceTables() != 2 {
			t.Errorf("no rules after %s", step)
		}
		h.mustSetServices(set)
		client.wants("tcp", virtual4+":80", "hi 10.77.0.1")
		h.wants("tcp", "["+virtual6+"]:80", "hi fd00:77::1")
		h.mustSetServices(empty)
		killed(set, step)
		h.mustSetServices(empty)
		if h.hasNoServiceRoute(); h.serviceTables() > 0 || t.Failed() {
			t.Fatalf("after a kill at %s and a removal, %d tables are left", step, h.serviceTables())
		}
	}
	for _, step := range removals {
		h.mustSetServices(set)
		killed(empty, step)
		// Rules without routes would look complete to podrun.
		if h.serviceTables() > 0 {
			h.wants("tcp", "["+virtual6+"]:80", "hi fd00:77::1")
		}
		h.mustSetServices(empty)
		if h.hasNoServiceRoute(); h.serviceTables() > 0 || t.Failed() {
			t.Fatalf("after a kill of the removal at %s, %d tables are left", step, h.serviceTables())
		}
	}
}

// removeBridge removes the bridge, so that the next ADD creates it.
func (w *wholeNet) removeBridge() {
	w.t.Helper()
	w.do(func() {
		if br, err := netlink.LinkByName("br0"); err == nil {
			if err := netlink.LinkDel(br); err != nil {
				w.t.Error(err)
			}
		}
	})
}

// A failed ADD removes what it created, at each step that can fail.
func TestFailedAddLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for name, settings := range map[string]map[string]any{
		"a route through no gateway":    {"ipam": map[string]any{"type": "host-local", "dataDir": w.dir, "ranges": [][]map[string]string{{{"subnet": "10.99.0.0/24"}}}, "routes": []map[string]string{{"dst": "10.1.0.0/16", "gw": "192.168.77.1"}}}},
		"a directory that is a file":    {"ipam": map[string]any{"type": "host-local", "dataDir": "/proc/version", "ranges": [][]map[string]string{{{"subnet": "10.99.0.0/24"}}}}},
		"another address of the bridge": {"ipam": map[string]any{"type": "host-local", "dataDir": w.dir, "ranges": [][]map[string]string{{{"subnet": "10.98.0.0/24"}}}}},
	} {
		keep, p := w.sandbox(), w.sandbox()
		w.attach(keep, nil)
		if out, _, err := w.call("ADD", p, w.config(settings)); err == nil {
			t.Errorf("%s: ADD succeeds: %s", name, out)
		}
		if n := len(w.files()); n != 2 || len(w.links()) != 1 {
			t.Errorf("%s: addresses %q, interfaces %q", name, w.files(), w.links())
		}
		w.detach(keep)
		w.empty()
	}
}
