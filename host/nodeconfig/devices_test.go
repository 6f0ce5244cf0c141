package nodeconfig

import (
	"reflect"
	"testing"
)

func TestParseDevices(t *testing.T) {
	for _, tc := range []struct {
		given []string
		want  map[string][]string
		bad   bool
	}{
		{want: map[string][]string{}},
		{given: []string{"nvidia.com/gpu=nvidia.com/gpu=1", "example.com/tpu=example.com/class=a:b.c", "nvidia.com/gpu=nvidia.com/gpu=0"},
			want: map[string][]string{"nvidia.com/gpu": {"nvidia.com/gpu=1", "nvidia.com/gpu=0"}, "example.com/tpu": {"example.com/class=a:b.c"}}},
		{given: []string{"cpu=example.com/a=0"}, bad: true},
		{given: []string{"kubernetes.io/gpu=example.com/a=0"}, bad: true},
		{given: []string{"x.kubernetes.io/gpu=example.com/a=0"}, bad: true},
		{given: []string{"requests.example.com/gpu=example.com/a=0"}, bad: true},
		{given: []string{"example.com/gpu"}, bad: true},
		{given: []string{"example.com/gpu=0"}, bad: true},
		{given: []string{"example.com/gpu=example.com/gpu"}, bad: true},
		{given: []string{"example.com/gpu=../x=0"}, bad: true},
		{given: []string{"example.com/gpu=example.com/a=0", "example.com/other=example.com/a=0"}, bad: true},
	} {
		got, err := ParseDevices(tc.given)
		if (err != nil) != tc.bad || !tc.bad && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q: %v, %v", tc.given, got, err)
		}
	}
}
