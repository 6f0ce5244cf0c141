package grammar

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// templateField matches a field in a template of docker.
var templateField = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{ *(?:json +)?(\.[A-Za-z.]+) *\}\}`)
})

// format returns the flags of get for docker's --format, or nil if the flag is another one or podrun does not know one
// of the fields: then the flag has a row with a hint.
func (a arguments) format(u flagUse) []string {
	if u.name != "--format" || a.commands[0] != "get" {
		return nil
	}
	template, heading := strings.CutPrefix(u.value, "table ")
	var paths, columns, line []string
	at := 0
	literal := func(text string) {
		if text != "" {
			line = append(line, `{"`+strings.ReplaceAll(text, `"`, `\"`)+`"}`)
		}
	}
	for _, m := range templateField().FindAllStringSubmatchIndex(template, -1) {
		name := template[m[2]:m[3]]
		field := words()["{{"+name+"}}"]
		if field == nil {
			return nil
		}
		literal(template[at:m[0]])
		at = m[1]
		paths = append(paths, field.podrun[0])
		line = append(line, "{"+field.podrun[0]+"}")
		columns = append(columns, strings.ToUpper(name[strings.LastIndex(name, ".")+1:])+":"+field.podrun[0])
	}
	literal(template[at:])
	listed := slices.Contains([]string{"ps", "ls", "list", "pods"}, a.typed)
	switch {
	case len(paths) == 0 || strings.Count(template, "{{") != len(paths):
		return nil
	case heading:
		return []string{"-o", "custom-columns=" + strings.Join(columns, ",")}
	case len(line) == 1:
		return []string{"-o", "custom-columns=" + columns[0], "--no-headers"}
	case listed:
		return []string{"-o", "jsonpath={range .items[*]}" + strings.Join(line, "") + `{"\n"}{end}`}
	}
	return nil
}
