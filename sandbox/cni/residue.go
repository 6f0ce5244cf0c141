// Package cni finds and removes leftovers of network plugins (CNI) for removed sandboxes. If a
// plugin is killed during its work, its next run cannot complete this work, because the sandbox's
// address and network namespace are gone.
package cni

import (
	"bufio"
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/podrun/podrun/internal/identity"
)

// Attachment is libcni's record of the attachment of a sandbox to a network. It exists from the
// end of the plugins' ADD to the end of their DEL.
type Attachment struct {
	File    string `json:"file"`    // path of the record
	Network string `json:"network"` // name of the network
	Sandbox string `json:"sandbox"` // ID of the sandbox
	Pod     identity.Pod
	// Managed is true if podrun created the sandbox. RootDir is then the root directory of the
	// podrun process that created it.
	Managed bool   `json:"managed"`
	RootDir string `json:"rootDir,omitempty"`
	// LeaseDirs are the directories in which the host-local plugin stores its address reservations.
	LeaseDirs []string `json:"leaseDirs,omitempty"`
}

// cached is the format of the record (libcni's cachedInfo).
type cached struct {
	Kind        string      `json:"kind"`
	ContainerID string      `json:"containerId"`
	Config      []byte      `json:"config"`
	Network     string      `json:"networkName"`
	Args        [][2]string `json:"cniArgs"`
	Capability  struct {
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"capabilityArgs"`
}

// leases is host-local's part of a network's configuration.
type leases struct {
	Plugins []struct {
		IPAM struct {
			Type    string `json:"type"`
			DataDir string `json:"dataDir"`
		} `json:"ipam"`
	} `json:"plugins"`
}

// defaultLeases is host-local's dataDir if the configuration does not specify one.
const defaultLeases = "/var/lib/cni/networks"

// ids matches the IDs that runtimes give to sandboxes. Any other text is not an ID.
var ids = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{12,64}$`) })

// networks matches valid names of networks (CNI specification, section 1).
var networks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`) })

// Parse parses a libcni file. The result ok is false if the file is not the record of a sandbox.
func Parse(file string, data []byte) (a Attachment, ok bool) {
	var c cached
	if json.Unmarshal(data, &c) != nil || !ids().MatchString(c.ContainerID) || !networks().MatchString(c.Network) {
		return Attachment{}, false
	}
	a = Attachment{File: file, Network: c.Network, Sandbox: c.ContainerID}
	for _, arg := range c.Args {
		switch arg[0] {
		case "K8S_POD_NAMESPACE":
			a.Pod.Namespace = arg[1]
		case "K8S_POD_NAME":
			a.Pod.Name = arg[1]
		case "K8S_POD_UID":
			a.Pod.UID = arg[1]
		}
	}
	a.Managed = c.Capability.Annotations[identity.AnnotationManagedBy] == identity.ManagedBy
	a.RootDir = c.Capability.Annotations[identity.AnnotationRootDir]
	var l leases
	if json.Unmarshal(c.Config, &l) != nil {
		return a, true
	}
	for _, p := range l.Plugins {
		if p.IPAM.Type != "host-local" {
			continue
		}
		dir := p.IPAM.DataDir
		if dir == "" {
			dir = defaultLeases
		}
		a.LeaseDirs = append(a.LeaseDirs, dir+"/"+c.Network)
	}
	return a, true
}

// chains returns the names that the bridge and portmap plugins give to the chains of a sandbox
// (containernetworking/plugins, pkg/utils.FormatChainName).
func chains(network, sandbox string) []string {
	const length = 28
	sum := fmt.Sprintf("%x", sha512.Sum512([]byte(network+sandbox)))
	return []string{("CNI-" + sum)[:length], ("CNI-DN-" + sum)[:length]}
}

// named matches the network and the sandbox in the comment of a rule.
var named = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`name: \\?"([^"\\]+)\\?" id: \\?"([0-9a-f]+)\\?"`) })

// removal converts the output of iptables-save to input for iptables-restore --noflush. This input
// removes the rules and chains of the given sandboxes. It is empty if there are none. removal
// identifies a rule by its comment, and a chain without comments by its name, which is a hash of
// the network and the sandbox.
func removal(saved []byte, attachments []Attachment, sandboxes []string) []byte {
	own := map[string]bool{}
	for _, a := range attachments {
		for _, chain := range chains(a.Network, a.Sandbox) {
			own[chain] = true
		}
	}
	lines := slices.Collect(strings.Lines(string(saved)))
	for _, line := range lines {
		if m := named().FindStringSubmatch(line); m != nil && slices.Contains(sandboxes, m[2]) {
			for _, chain := range chains(m[1], m[2]) {
				own[chain] = true
			}
		}
	}
	var out bytes.Buffer
	var table string
	var there []string
	rules := 0
	end := func() {
		if len(there)+rules == 0 {
			out.Truncate(bytes.LastIndex(out.Bytes(), []byte(table)))
			return
		}
		w := bufio.NewWriter(&out)
		for _, c := range there {
			fmt.Fprintf(w, "-F %s\n", c)
		}
		for _, c := range there {
			fmt.Fprintf(w, "-X %s\n", c)
		}
		fmt.Fprintln(w, "COMMIT")
		// Flush cannot fail, because it writes to memory.
		w.Flush()
	}
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case line[0] == '*':
			table, there, rules = line, nil, 0
			out.WriteString(table)
		case line[0] == ':' && own[words[0][1:]]:
			there = append(there, words[0][1:])
		case words[0] == "-A" && len(words) > 1 && !own[words[1]] && leads(line, words, own, sandboxes):
			out.WriteString("-D" + strings.TrimPrefix(line, "-A"))
			rules++
		case words[0] == "COMMIT":
			end()
		}
	}
	return out.Bytes()
}

// leads reports whether a rule jumps to one of the chains, or belongs to one of the sandboxes.
func leads(line string, words []string, own map[string]bool, sandboxes []string) bool {
	if at := slices.Index(words, "-j"); at > 0 && at+1 < len(words) && own[words[at+1]] {
		return true
	}
	m := named().FindStringSubmatch(line)
	return m != nil && slices.Contains(sandboxes, m[2])
}
