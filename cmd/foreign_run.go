package cmd

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// dockerRun are the arguments of docker run, podman run and kubectl run.
type dockerRun struct {
	image, name, entrypoint, workDir, user, memory, cpus, network, hostname, pull, restart string
	env, ports, volumes, labels, args, capAdd                                              []string
	privileged, readOnly, detach, stdin, tty, asCommand                                    bool
}

// dockerRunHint returns the command that runs the pod which a command line of docker run or
// kubectl run describes, or "" if the arguments name a manifest or cannot be converted.
func dockerRunHint(typed []string) string {
	at := slices.Index(typed, "run")
	if at < 0 {
		return ""
	}
	d, ok := parseDockerRun(typed[at+1:])
	if !ok {
		return ""
	}
	pod, err := json.Marshal(d.pod())
	if err != nil {
		return ""
	}
	manifest := "echo " + shellWord(string(pod))
	switch {
	case d.detach:
		return "run: " + manifest + " | podrun apply -"
	case d.stdin && d.tty:
		return "run: podrun run -it <(" + manifest + ")"
	case d.stdin:
		return "run: podrun run -i <(" + manifest + ")"
	}
	return "run: " + manifest + " | podrun run -"
}

// parseDockerRun reports whether the arguments are those of docker run or kubectl run with an
// image, and flags that a pod has a field for.
func parseDockerRun(args []string) (*dockerRun, bool) {
	d, image := &dockerRun{}, ""
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.StringVar(&image, "image", "", "")
	kubectl := slices.ContainsFunc(args, func(arg string) bool { return arg == "--image" || strings.HasPrefix(arg, "--image=") })
	set.SetInterspersed(kubectl)
	set.StringVar(&d.name, "name", "", "")
	set.StringVar(&d.entrypoint, "entrypoint", "", "")
	set.StringVarP(&d.workDir, "workdir", "w", "", "")
	set.StringVarP(&d.user, "user", "u", "", "")
	set.StringVarP(&d.memory, "memory", "m", "", "")
	set.StringVar(&d.cpus, "cpus", "", "")
	set.StringVar(&d.network, "network", "", "")
	set.StringVar(&d.network, "net", "", "")
	set.StringVarP(&d.hostname, "hostname", "h", "", "")
	set.StringVar(&d.pull, "pull", "", "")
	set.StringVar(&d.restart, "restart", "", "")
	set.StringArrayVarP(&d.env, "env", "e", nil, "")
	set.StringArrayVarP(&d.ports, "publish", "p", nil, "")
	set.StringArrayVar(&d.ports, "port", nil, "")
	set.StringArrayVarP(&d.volumes, "volume", "v", nil, "")
	set.StringArrayVarP(&d.labels, "label", "l", nil, "")
	set.StringArrayVar(&d.labels, "labels", nil, "")
	set.StringArrayVar(&d.capAdd, "cap-add", nil, "")
	set.BoolVar(&d.privileged, "privileged", false, "")
	set.BoolVar(&d.readOnly, "read-only", false, "")
	set.BoolVarP(&d.detach, "detach", "d", false, "")
	set.BoolVarP(&d.stdin, "interactive", "i", false, "")
	set.BoolVar(&d.stdin, "stdin", false, "")
	set.BoolVarP(&d.tty, "tty", "t", false, "")
	set.BoolVar(&d.asCommand, "command", false, "")
	for _, name := range []string{"rm", "init", "attach", "quiet", "expose"} {
		set.Bool(name, false, "")
	}
	if set.Parse(args) != nil {
		return nil, false
	}
	words := set.Args()
	if kubectl {
		if len(words) > 0 && set.ArgsLenAtDash() != 0 {
			d.name, words = words[0], words[1:]
		}
		d.image, d.args = image, words
		return d, image != "" && !isManifest(d.name)
	}
	if len(words) == 0 || isManifest(words[0]) {
		return nil, false
	}
	d.image, d.args = words[0], words[1:]
	return d, imageName.MatchString(d.image)
}

// imageName is the form of an image's name.
var imageName = regexp.MustCompile(`^[a-z0-9][a-z0-9._:/@-]*(:[A-Za-z0-9._-]+)?$`)

// isManifest reports whether an argument of run names a file, or looks like one.
func isManifest(word string) bool {
	_, err := os.Stat(word)
	return err == nil || looksLikeFile(word) || strings.Contains(word, "://") || strings.ContainsAny(word, "*?[")
}

// object is a part of a manifest.
type object = map[string]any

// pod returns the pod of the arguments.
func (d *dockerRun) pod() object {
	container := object{"name": "main", "image": d.image}
	switch {
	case d.entrypoint != "":
		container["command"] = []string{d.entrypoint}
	case d.asCommand && len(d.args) > 0:
		container["command"], d.args = d.args, nil
	}
	if len(d.args) > 0 {
		container["args"] = d.args
	}
	setText(container, "workingDir", d.workDir)
	setText(container, "imagePullPolicy", map[string]string{"always": "Always", "missing": "IfNotPresent", "never": "Never"}[d.pull])
	for flag, field := range map[string]bool{"stdin": d.stdin, "tty": d.tty} {
		if field {
			container[flag] = true
		}
	}
	if security := d.securityContext(); len(security) > 0 {
		container["securityContext"] = security
	}
	limits := object{}
	setText(limits, "memory", d.memoryQuantity())
	setText(limits, "cpu", d.cpus)
	if len(limits) > 0 {
		container["resources"] = object{"limits": limits}
	}
	spec := object{}
	setList(container, "env", d.envVars())
	setList(container, "ports", d.containerPorts())
	mounts, volumes := d.mounts()
	setList(container, "volumeMounts", mounts)
	setList(spec, "volumes", volumes)
	spec["containers"] = []object{container}
	setText(spec, "hostname", d.hostname)
	if d.network == "host" {
		spec["hostNetwork"] = true
	}
	if d.restart == "OnFailure" || strings.HasPrefix(d.restart, "on-failure") {
		spec["restartPolicy"] = "OnFailure"
	} else if d.restart == "Never" || d.restart == "no" {
		spec["restartPolicy"] = "Never"
	}
	metadata := object{"name": d.podName()}
	if labels := labelPairs(d.labels); len(labels) > 0 {
		metadata["labels"] = labels
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
}

func setText(o object, field, value string) {
	if value != "" {
		o[field] = value
	}
}

func setList(o object, field string, list []object) {
	if len(list) > 0 {
		o[field] = list
	}
}

// invalidInName are the characters that a pod's name cannot contain.
var invalidInName = regexp.MustCompile(`[^a-z0-9]+`)

// podName returns --name or, without it, the last part of the image's name.
func (d *dockerRun) podName() string {
	name := d.name
	if name == "" {
		name, _, _ = strings.Cut(d.image, "@")
		name = name[strings.LastIndex(name, "/")+1:]
		name, _, _ = strings.Cut(name, ":")
	}
	return strings.Trim(invalidInName.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

func (d *dockerRun) securityContext() object {
	out := object{}
	if d.privileged {
		out["privileged"] = true
	}
	if d.readOnly {
		out["readOnlyRootFilesystem"] = true
	}
	if len(d.capAdd) > 0 {
		out["capabilities"] = object{"add": d.capAdd}
	}
	user, group, _ := strings.Cut(d.user, ":")
	for field, id := range map[string]string{"runAsUser": user, "runAsGroup": group} {
		if n, err := strconv.Atoi(id); err == nil {
			out[field] = n
		}
	}
	return out
}

// memoryQuantity converts docker's 64m to 64Mi, since m is a thousandth in Kubernetes.
func (d *dockerRun) memoryQuantity() string {
	lower := strings.TrimSuffix(strings.ToLower(d.memory), "b")
	if lower == "" {
		return ""
	}
	unit := map[byte]string{'k': "Ki", 'm': "Mi", 'g': "Gi"}[lower[len(lower)-1]]
	if unit == "" {
		return d.memory
	}
	return lower[:len(lower)-1] + unit
}

func (d *dockerRun) envVars() (out []object) {
	for _, pair := range d.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			value = "VALUE" // of a variable of this shell, which may be secret
		}
		out = append(out, object{"name": name, "value": value})
	}
	return out
}

// containerPorts converts [[IP:]HOST:]CONTAINER[/PROTOCOL].
func (d *dockerRun) containerPorts() (out []object) {
	for _, text := range d.ports {
		text, protocol, _ := strings.Cut(text, "/")
		parts := strings.Split(text, ":")
		number, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			continue
		}
		port := object{"containerPort": number}
		if len(parts) > 1 {
			if host, err := strconv.Atoi(parts[len(parts)-2]); err == nil {
				port["hostPort"] = host
			}
		}
		if len(parts) > 2 {
			port["hostIP"] = parts[0]
		}
		setText(port, "protocol", strings.ToUpper(protocol))
		out = append(out, port)
	}
	return out
}

// mounts converts [SOURCE:]PATH[:ro]: a SOURCE with a slash is a directory of the host.
func (d *dockerRun) mounts() (mounts, volumes []object) {
	for i, text := range d.volumes {
		parts := strings.Split(text, ":")
		source, path := "", parts[0]
		if len(parts) > 1 {
			source, path = parts[0], parts[1]
		}
		name := "volume-" + strconv.Itoa(i+1)
		mount, volume := object{"name": name, "mountPath": path}, object{"name": name, "emptyDir": object{}}
		if len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro") {
			mount["readOnly"] = true
		}
		if strings.Contains(source, "/") {
			volume = object{"name": name, "hostPath": object{"path": source}}
		}
		mounts, volumes = append(mounts, mount), append(volumes, volume)
	}
	return mounts, volumes
}

// labelPairs converts a=b,c=d.
func labelPairs(lists []string) map[string]string {
	out := map[string]string{}
	for _, list := range lists {
		for pair := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(pair, "=")
			out[name] = value
		}
	}
	return out
}
