package view

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// PrintData writes a value as JSON or YAML.
func PrintData(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	data = append(EscapeJSON(data), '\n')
	if format == "yaml" {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	_, err = w.Write(data)
	return err
}
