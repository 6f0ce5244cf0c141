package view

import (
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/manifest"
)

// The values of kubectl diff for the data of Secrets.
const (
	maskedSame   = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// dataObject contains the fields of a ConfigMap or a Secret that diff compares.
type dataObject struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// DataDiff returns the unified diffs of the ConfigMaps and Secrets whose data differs.
func DataDiff(before, after manifest.Checkpoint) (string, error) {
	live, _, _ := before.Diff(after)
	was, is := dataObjects(before), dataObjects(after)
	var out strings.Builder
	for _, name := range live {
		maskSecret(was[name], is[name])
		text, err := objectDiff(name, was[name], is[name])
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// dataObjects returns the ConfigMaps and Secrets of a checkpoint by the names that
// manifest.Checkpoint.Differ uses.
func dataObjects(c manifest.Checkpoint) map[string]*dataObject {
	out := map[string]*dataObject{}
	add := func(kind, namespace, name string, data map[string]string, binary map[string][]byte) {
		out[kind+" "+namespace+"/"+name] = &dataObject{APIVersion: "v1", Kind: kind,
			Metadata: map[string]string{"name": name, "namespace": namespace}, Data: data, BinaryData: binary}
	}
	for _, m := range c.ConfigMaps {
		add("ConfigMap", m.Namespace, m.Name, m.Data, m.BinaryData)
	}
	for _, s := range c.Secrets {
		data := map[string]string{}
		for key, value := range s.Data {
			data[key] = string(value)
		}
		add("Secret", s.Namespace, s.Name, data, nil)
	}
	return out
}

// maskSecret replaces the values of a Secret, as kubectl diff does. Either object may be nil.
func maskSecret(was, is *dataObject) {
	if (was == nil || was.Kind != "Secret") && (is == nil || is.Kind != "Secret") {
		return
	}
	var before, after map[string]string
	if was != nil {
		before = was.Data
	}
	if is != nil {
		after = is.Data
	}
	for _, key := range slices.Collect(maps.Keys(before)) {
		old := before[key]
		before[key] = maskedSame
		if value, both := after[key]; both && value != old {
			before[key], after[key] = maskedBefore, maskedAfter
		}
	}
	for key, value := range after {
		if value != maskedAfter || before[key] != maskedBefore {
			after[key] = maskedSame
		}
	}
}

// objectDiff returns the unified diff of two versions of an object; either version may be nil.
func objectDiff(name string, was, is *dataObject) (string, error) {
	var texts [2][]byte
	for i, o := range []*dataObject{was, is} {
		if o == nil {
			continue
		}
		var err error
		if texts[i], err = objectYAML(name, o); err != nil {
			return "", err
		}
	}
	return unifiedDiff(name, texts[0], texts[1]), nil
}
