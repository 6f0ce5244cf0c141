package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// Checkpoint contains a pod and the objects that the pod uses. With it, podrun can create the
// pod's environment, volumes and sandbox again without the original files.
type Checkpoint struct {
	Pod          *corev1.Pod
	ConfigMaps   []*corev1.ConfigMap
	Secrets      []*corev1.Secret
	Claims       []*corev1.PersistentVolumeClaim
	Volumes      []*corev1.PersistentVolume
	RuntimeClass *nodev1.RuntimeClass // nil if the pod uses none
	// Definition is the object that defines the pod; nil if an older release wrote the checkpoint.
	Definition *Definition
	// Images are the IDs of images, by their names in the pod, that the pod uses if the runtime has them, whatever
	// the names refer to now. Only a pod that podrun has rolled back has them.
	Images map[string]string

	// InMemory is true if podrun keeps the pod's Secrets in memory only. SecretsLost is true if
	// podrun has lost them; the Secrets then have no data. Marshal writes neither field.
	InMemory, SecretsLost bool
}

// WithoutSecrets returns the checkpoint with only the names and types of its Secrets. It omits the
// Secrets' annotations, because these may also contain the data.
func (c Checkpoint) WithoutSecrets() Checkpoint {
	secrets := c.Secrets
	c.Secrets = nil
	for _, s := range secrets {
		c.Secrets = append(c.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Type: s.Type})
	}
	return c
}

// Marshal returns the checkpoint as a YAML stream, the pod first. Each object is one line of JSON,
// which is valid YAML but can be decoded ten times faster. The speed matters because every command
// reads the pods of all checkpoints. The same checkpoint always results in the same bytes.
func (c Checkpoint) Marshal() ([]byte, error) {
	if c.Pod == nil {
		return nil, fmt.Errorf("a checkpoint without a pod")
	}
	pod := storedPod{Pod: *c.Pod, Definition: c.Definition, Images: c.Images}
	pod.TypeMeta = typeMeta("v1", "Pod")
	objects := []any{pod}
	for _, o := range c.ConfigMaps {
		o := *o
		o.TypeMeta = typeMeta("v1", "ConfigMap")
		objects = append(objects, o)
	}
	for _, o := range c.Secrets {
		o := *o
		o.TypeMeta = typeMeta("v1", "Secret")
		objects = append(objects, o)
	}
	for _, o := range c.Claims {
		o := *o
		o.TypeMeta = typeMeta("v1", "PersistentVolumeClaim")
		objects = append(objects, o)
	}
	for _, o := range c.Volumes {
		o := *o
		o.TypeMeta = typeMeta("v1", "PersistentVolume")
		objects = append(objects, o)
	}
	if c.RuntimeClass != nil {
		o := *c.RuntimeClass
		o.TypeMeta = typeMeta("node.k8s.io/v1", "RuntimeClass")
		objects = append(objects, o)
	}
	return stream(objects)
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// stream encodes objects as documents of one stream.
func stream(objects []any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := enc.Encode(o); err != nil {
			return nil, fmt.Errorf("write the checkpoint: %w", err)
		}
	}
	return out.Bytes(), nil
}

// Unmarshal reads the output of Marshal. It does not validate the objects or set defaults (see
// Default). It accepts unknown fields, because a later version may have written them.
func Unmarshal(data []byte) (Checkpoint, error) {
	var c Checkpoint
	docs, err := split(input.Source{Name: "checkpoint", Data: data})
	if err != nil {
		return c, fmt.Errorf("read the checkpoint: %w", err)
	}
	for _, doc := range docs {
		raw := oneLine(doc.text)
		if raw == nil {
			var syntax problem.List
			if raw, _, syntax = doc.toJSON(); len(syntax) > 0 {
				return c, fmt.Errorf("read the checkpoint: line %d: %s", syntax[0].Line, syntax[0].Message)
			}
		}
		if err := c.take(raw); err != nil {
			return c, fmt.Errorf("read the checkpoint: line %d: %w", doc.first, err)
		}
	}
	if c.Pod == nil {
		return c, fmt.Errorf("read the checkpoint: it has no pod")
	}
	return c, nil
}

// oneLine returns the JSON line of a document that has comment lines and then one JSON line.
// For any other document, it returns nil.
func oneLine(text []byte) []byte {
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) || bytes.ContainsRune(text, '\n') || !json.Valid(text) {
		return nil
	}
	return text
}

// take decodes one object and adds it to the checkpoint.
func (c *Checkpoint) take(raw []byte) error {
	h, _ := readHeader(raw)
	switch h.Kind {
	case "Pod":
		var stored storedPod
		err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &stored)
		c.Pod = &stored.Pod
		c.Definition = stored.Definition
		c.Images = stored.Images
		return err
	case "ConfigMap":
		c.ConfigMaps = append(c.ConfigMaps, new(corev1.ConfigMap))
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, c.ConfigMaps[len(c.ConfigMaps)-1])
	case "Secret":
		c.Secrets = append(c.Secrets, new(corev1.Secret))
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, c.Secrets[len(c.Secrets)-1])
	case "PersistentVolumeClaim":
		c.Claims = append(c.Claims, new(corev1.PersistentVolumeClaim))
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, c.Claims[len(c.Claims)-1])
	case "PersistentVolume":
		c.Volumes = append(c.Volumes, new(corev1.PersistentVolume))
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, c.Volumes[len(c.Volumes)-1])
	case "RuntimeClass":
		c.RuntimeClass = new(nodev1.RuntimeClass)
		return kjson.UnmarshalCaseSensitivePreserveInts(raw, c.RuntimeClass)
	}
	return fmt.Errorf("unexpected kind %q", h.Kind)
}
