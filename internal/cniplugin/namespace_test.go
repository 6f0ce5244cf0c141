package cniplugin

import "testing"

func TestAddKey(t *testing.T) {
	value := Rootless{Netns: "/r/netns", Ports: "/r/ports.sock"}
	const key = `"rootless":{"netns":"/r/netns","ports":"/r/ports.sock"}`
	for object, want := range map[string]string{
		`{"a":1}`:         `{` + key + `,"a":1}`,
		` { "a": 1 } `:    `{` + key + `, "a": 1 }`,
		`{}`:              `{` + key + `}`,
		`{"rootless":{}}`: `{"rootless":{}}`,
		`[]`:              `[]`,
		``:                ``,
		`{"a":`:           `{"a":`,
	} {
		if got := string(addKey([]byte(object), value)); got != want {
			t.Errorf("%s: %s, want %s", object, got, want)
		}
	}
}
