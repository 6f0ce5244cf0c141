package cmd

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
	"RestartCount":              ".status.containerStatuses[*].restartCount",
	"Ports":                     ".spec.containers[*].ports[*].hostPort",
	"NetworkSettings.IPAddress": ".status.podIP",
}

// dockerField matches a field in a template of docker.
var dockerField = regexp.MustCompile(`\{\{ *(?:json +)?\.([A-Za-z.]+) *\}\}`)

// templateHint returns the hint for a template of docker ps and docker inspect: the same fields as columns. It
// returns "" if podrun does not know one of the fields, or if the template has none.
func (a *app) templateHint(c *cobra.Command, template string, rest []string) string {
	fields := dockerField.FindAllStringSubmatch(template, -1)
	if c.Name() != "get" || len(fields) == 0 || strings.Count(template, "{{") != len(fields) {
		return ""
	}
	var columns []string
	for _, f := range fields {
		path, ok := dockerFields[f[1]]
		if !ok {
			return ""
		}
		columns = append(columns, strings.ToUpper(f[1][strings.LastIndex(f[1], ".")+1:])+":"+path)
	}
	rest = append(slices.Clone(rest), "-o", "custom-columns="+strings.Join(columns, ","))
	if !strings.HasPrefix(template, "table ") {
		rest = append(rest, "--no-headers")
	}
	return "use 'podrun " + shellWords(rest) + "'"
}

// dockerPhases maps states of docker's containers to phases of pods.
var dockerPhases = map[string]string{"running": "Running", "created": "Pending"}

// filterHint returns the hint for docker's --filter on a command that prints pods, or "".
func (a *app) filterHint(c *cobra.Command, name string) string {
	if c.Name() != "get" || name != "filter" && name != "f" {
		return ""
	}
	rest, filter := withoutFlag(a.typed, name, true)
	key, value, _ := strings.Cut(filter, "=")
	switch {
	case value == "":
		return ""
	case key == "name":
		rest = append(rest, value)
	case key == "label":
		rest = append(rest, "-l", value)
	case key == "status" && dockerPhases[value] != "":
		rest = append(rest, "--field-selector=status.phase="+dockerPhases[value])
	case key == "status" && (value == "exited" || value == "dead"):
		rest = append(rest, "--field-selector=status.phase!=Running")
	default:
		return ""
	}
	return "use 'podrun " + shellWords(rest) + "'"
}
