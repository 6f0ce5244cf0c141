package manifest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldHint returns a hint for a value that validation refuses. If the error itself is clear
// enough, it returns "".
func fieldHint(e *field.Error) string {
	last := e.Field[strings.LastIndex(e.Field, ".")+1:]
	switch {
	case e.Type == field.ErrorTypeNotFound && mountName().MatchString(e.Field):
		return fmt.Sprintf("add a volume with the name %v to spec.volumes", e.BadValue)
	case e.Type == field.ErrorTypeNotSupported:
		if similar := nearest(fmt.Sprint(e.BadValue), supported(e.Detail)); similar != "" {
			return "did you mean " + similar + "?"
		}
	case e.Type == field.ErrorTypeInvalid && (last == "name" || last == "namespace"):
		if valid := validName(fmt.Sprint(e.BadValue)); valid != "" && valid != fmt.Sprint(e.BadValue) {
			return "did you mean " + valid + "?"
		}
	}
	return ""
}

// mountName matches the fields that refer to a volume of the pod.
var mountName = lazy(`\.volume(Mounts|Devices)\[\d+\]\.name$`)

// supported returns the values that the detail of a field.NotSupported error lists.
func supported(detail string) (values []string) {
	for _, m := range quoted().FindAllStringSubmatch(detail, -1) {
		values = append(values, m[1])
	}
	return values
}

var quoted = lazy(`"([^"]*)"`)

// validName returns the RFC 1123 subdomain that the author of a name probably intended. It
// returns "" if there is none.
func validName(name string) string {
	name = strings.Trim(notInName().ReplaceAllString(strings.ToLower(name), "-"), "-.")
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

var notInName = lazy(`[^a-z0-9.]+`)

// QuantityHint suggests quantities for a value with a unit of another program, for example 64M
// or 64Mi for 64MB.
func QuantityHint(value string) string {
	m := byteUnit().FindStringSubmatch(strings.Trim(value, `"`))
	if m == nil {
		return "write a number with one of the units Ki, Mi, Gi, or m for thousandths, such as 128Mi or 500m"
	}
	unit := strings.ToUpper(m[2])
	if unit == "" {
		return "did you mean " + m[1] + "? A number without a unit is in bytes"
	}
	decimal := unit
	if unit == "K" {
		decimal = "k"
	}
	return fmt.Sprintf("did you mean %s%si, or %s%s?", m[1], unit, m[1], decimal)
}

// byteUnit matches 64MB, 64mb, 64 MiB, 64 M, 64b.
var byteUnit = lazy(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT]?)[iI]?[bB]?$`)

// lazy returns a function that compiles an expression when it is first called.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
