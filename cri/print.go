package cri

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shownZeros lists, by message, the fields that are printed even if they are zero. For these
// fields, zero is a significant value, such as a state or a namespace mode, which the reader could
// not infer.
var shownZeros = map[protoreflect.Name][]protoreflect.Name{
	"NamespaceOption":               {"network", "pid", "ipc"},
	"UserNamespace":                 {"mode"},
	"SecurityProfile":               {"profile_type"},
	"LinuxSandboxSecurityContext":   {"privileged", "readonly_rootfs"},
	"LinuxContainerSecurityContext": {"privileged", "readonly_rootfs", "no_new_privs"},
	"Mount":                         {"readonly", "propagation"},
	"PortMapping":                   {"protocol"},
	"Int64Value":                    {"value"}, // run_as_user, run_as_group
	"KeyValue":                      {"value"},
	"PodSandbox":                    {"state"},
	"PodSandboxStatus":              {"state"},
	"PodSandboxStateValue":          {"state"},
	"Container":                     {"state"},
	"ContainerStatus":               {"state", "exit_code"},
	"ContainerStateValue":           {"state"},
	"ExecSyncResponse":              {"exit_code"},
	"RuntimeCondition":              {"status"},
}

// redacted replaces the values of fields that the CRI marks as secret.
const redacted = "(redacted)"

// Value converts a CRI message to plain values. encoding/json and yaml.v3 always print them in the
// same way, with fields in the order of the CRI's .proto file. (The output of protojson is not
// stable, https://github.com/golang/protobuf/issues/1082.) Fields have their .proto names, enums
// are names, maps are sorted, and bytes (the values of env) are text. Value omits unset fields,
// except those in shownZeros, and redacts secrets. It returns nil for a nil message.
func Value(m proto.Message) any {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	return messageValue(m.ProtoReflect())
}

func messageValue(m protoreflect.Message) object {
	fields := m.Descriptor().Fields()
	shown := shownZeros[m.Descriptor().Name()]
	o := object{}
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) && !slices.Contains(shown, f.Name()) {
			continue
		}
		o = append(o, member{string(f.Name()), fieldValue(f, m.Get(f))})
	}
	return o
}

func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if opts, ok := f.Options().(*descriptorpb.FieldOptions); ok && opts.GetDebugRedact() {
		return redacted
	}
	switch {
	case f.IsMap():
		o := object{}
		v.Map().Range(func(k protoreflect.MapKey, item protoreflect.Value) bool {
			o = append(o, member{k.String(), scalarValue(f.MapValue(), item)})
			return true
		})
		slices.SortFunc(o, func(a, b member) int { return strings.Compare(a.name, b.name) })
		return o
	case f.IsList():
		all := make([]any, v.List().Len())
		for i := range all {
			all[i] = scalarValue(f, v.List().Get(i))
		}
		return all
	}
	return scalarValue(f, v)
}

func scalarValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageValue(v.Message())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return int32(v.Enum())
	case protoreflect.BytesKind:
		return strings.ToValidUTF8(string(v.Bytes()), "\uFFFD")
	}
	return v.Interface()
}

// object is a mapping that preserves its order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalYAML implements yaml.Marshaler.
func (o object) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range o {
		var key, value yaml.Node
		if err := key.Encode(m.name); err != nil {
			return nil, err
		}
		if err := value.Encode(m.value); err != nil {
			return nil, err
		}
		n.Content = append(n.Content, &key, &value)
	}
	return n, nil
}
