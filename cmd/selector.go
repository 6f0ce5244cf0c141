package cmd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// parseSelector parses the value of -l; an empty selector matches everything.
func parseSelector(text string) (func(map[string]string) bool, error) {
	sel, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("-l %q: %w", text, err)
	}
	return func(have map[string]string) bool { return sel.Matches(labels.Set(have)) }, nil
}
