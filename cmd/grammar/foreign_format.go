package grammar

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// dockerFields maps fields in the templates of docker ps and docker inspect to fields of a Pod.
var dockerFields = map[string]string{
	"Names":                     ".metadata.name",
	"Name":                      ".metadata.name",
	"ID":                        ".status.containerStatuses[*].containerID",
	"Id":                        ".status.containerStatuses[*].containerID",
	"Image":                     ".spec.containers[*].image",
	"Config.Image":              ".spec.containers[*].image",
	"Config.Labels":             ".metadata.labels",
	"Labels":                    ".metadata.labels",
	"State":                     ".status.phase",
	"Status":                    ".status.phase",
	"State.Status":              ".status.phase",
	"State.ExitCode":            ".status.containerStatuses[*].state.terminated.exitCode",
	"State.StartedAt":           ".status.startTime",
	"Created":                   ".metadata.creationTimestamp",
	"CreatedAt":                 ".metadata.creationTimestamp",
	"Command":                   ".spec.containers[*].command",
	"RunningFor":                ".status.startTime",
	"State.Running":             ".status.containerStatuses[*].started",
	"RestartCount":              ".status.containerStatuses[*].restartCount",
	"Ports":                     ".spec.containers[*].ports[*].hostPort",
	"NetworkSettings.IPAddress": ".status.podIP",
}

// dockerField matches a field in a template of docker.
var dockerField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{ *(?:json +)?\.([A-Za-z.]+) *\}\}`) })

// dockerFlags converts docker's flags --format and --filter in the arguments of get, and reports whether it converted
// a --format. Words is the command as it was typed. It does not change values that have no equivalent: for them,
// unknownFlag returns a hint.
func dockerFlags(words, command string, args []string) (out []string, formatted bool) {
	if command != "get" {
		return args, false
	}
	var selectors = map[string][]string{}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...), formatted
		}
		flag, value, attached := strings.Cut(args[i], "=")
		known := flag == "--format" || flag == "--filter" || flag == "-f"
		if known && !attached && i+1 < len(args) {
			value = args[i+1]
		}
		output := outputOfFormat(value)
		if output == nil && slices.Contains([]string{"ps", "ls", "list", "pods"}, words) {
			output = lineOfFormat(value)
		}
		selector, selected := selectorOfFilter(value)
		switch {
		case known && flag != "--filter" && output != nil:
			out, formatted = append(out, output...), true
		case known && flag != "--format" && selector != "":
			selectors[selector] = append(selectors[selector], selected)
		default:
			out = append(out, args[i])
			continue
		}
		if !attached {
			i++
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(selectors)) {
		out = append(out, flag+"="+strings.Join(selectors[flag], ","))
	}
	return out, formatted
}

// outputOfFormat returns the flags of get for a template of docker ps and docker inspect: the same fields as columns. It
// returns nil if podrun does not know one of the fields. If the template contains several fields, it must begin with
// the word table, because the columns have another separator.
func outputOfFormat(template string) []string {
	switch strings.ReplaceAll(template, " ", "") {
	case "json", "{{json.}}":
		return []string{"-o", "json"}
	case "yaml":
		return []string{"-o", "yaml"}
	}
	found := dockerField().FindAllStringSubmatch(template, -1)
	heading := strings.HasPrefix(template, "table ")
	if len(found) == 0 || strings.Count(template, "{{") != len(found) || !heading && template != found[0][0] {
		return nil
	}
	var columns []string
	for _, f := range found {
		path, ok := dockerFields[f[1]]
		if !ok {
			return nil
		}
		columns = append(columns, strings.ToUpper(f[1][strings.LastIndex(f[1], ".")+1:])+":"+path)
	}
	out := []string{"-o", "custom-columns=" + strings.Join(columns, ",")}
	if !heading {
		out = append(out, "--no-headers")
	}
	return out
}

// lineOfFormat returns the flags of get for a template of docker ps with several fields: the same text for each pod. It
// returns nil if podrun does not know one of the fields.
func lineOfFormat(template string) []string {
	if !dockerField().MatchString(template) {
		return nil
	}
	var line strings.Builder
	line.WriteString("jsonpath={range .items[*]}")
	literal := func(text string) {
		if text != "" {
			line.WriteString(`{"` + strings.ReplaceAll(text, `"`, `\"`) + `"}`)
		}
	}
	at := 0
	for _, m := range dockerField().FindAllStringSubmatchIndex(template, -1) {
		path, ok := dockerFields[template[m[2]:m[3]]]
		if !ok || strings.Contains(template[at:m[0]], "{{") {
			return nil
		}
		literal(template[at:m[0]])
		line.WriteString("{" + path + "}")
		at = m[1]
	}
	if strings.Contains(template[at:], "{{") || strings.HasPrefix(template, "table ") {
		return nil
	}
	literal(template[at:])
	return []string{"-o", line.String() + `{"\n"}{end}`}
}

// dockerStates maps states of docker's containers to field selectors of pods.
var dockerStates = map[string]string{"running": "status.phase=Running", "created": "status.phase=Pending",
	"exited": "status.phase!=Running,status.phase!=Pending,status.phase!=Unknown", "dead": "status.phase=Failed"}

// selectorOfFilter returns the flag of get, and its value, for a filter of docker ps, or "".
func selectorOfFilter(filter string) (flag, value string) {
	switch key, value, _ := strings.Cut(filter, "="); {
	case value == "":
	case key == "name":
		return "--field-selector", "metadata.name=" + value
	case key == "label":
		return "--selector", value
	case key == "status" && dockerStates[value] != "":
		return "--field-selector", dockerStates[value]
	}
	return "", ""
}
