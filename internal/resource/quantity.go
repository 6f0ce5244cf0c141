package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// These are the limits on the text of a quantity. Kubernetes' parser computes with all digits of the number, so it
// would take minutes to parse 1e-99999999.
const (
	MaxQuantityLength   = 64
	MaxQuantityExponent = 30
)

// ErrQuantityLimits reports that a text exceeds the limits, and so was not parsed.
var ErrQuantityLimits = fmt.Errorf("longer than %d characters, or with an exponent beyond ±%d", MaxQuantityLength, MaxQuantityExponent)

// ParseQuantity parses a quantity, such as 100Mi or 500m, in bounded time. It returns
// ErrQuantityLimits if the text, or the canonical text of the result, exceeds the limits.
// Therefore, the canonical text of each result can be parsed too. A test (arch_test.go) forbids
// other calls of Kubernetes' parser.
func ParseQuantity(text string) (apiresource.Quantity, error) {
	if QuantityExceedsLimits(text) {
		return apiresource.Quantity{}, ErrQuantityLimits
	}
	q, err := apiresource.ParseQuantity(text)
	if err == nil && QuantityExceedsLimits(q.String()) {
		return apiresource.Quantity{}, ErrQuantityLimits
	}
	return q, err
}

var exponent = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[eE][+-]?0*([0-9]+)$`) })

// QuantityExceedsLimits reports whether a text must not be passed to Kubernetes' parser. It
// ignores spaces around the text, because Kubernetes removes them from JSON values.
func QuantityExceedsLimits(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > MaxQuantityLength {
		return true
	}
	m := exponent().FindStringSubmatch(text)
	return m != nil && (len(m[1]) > 2 || len(m[1]) == 2 && m[1] > fmt.Sprint(MaxQuantityExponent))
}

// JSONExceedsLimits reports whether a value in a JSON text exceeds the limits. Callers use it
// before they decode the text into a type with quantities. It checks keys in the same way as
// values.
func JSONExceedsLimits(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			// The error is io.EOF, or the JSON is invalid, which the caller reports.
			return false
		}
		switch value := token.(type) {
		case string:
			if QuantityExceedsLimits(value) {
				return true
			}
		case json.Number:
			if QuantityExceedsLimits(value.String()) {
				return true
			}
		}
	}
}
