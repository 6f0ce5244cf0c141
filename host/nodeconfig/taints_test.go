package nodeconfig

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestParseTaints(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []corev1.Taint
		bad  bool
	}{
		{text: ""},
		{text: "gpu=yes:NoExecute", want: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: "NoExecute"}}},
		{text: "example.com/a:NoSchedule,b=:PreferNoSchedule", want: []corev1.Taint{{Key: "example.com/a", Effect: "NoSchedule"}, {Key: "b", Effect: "PreferNoSchedule"}}},
		{text: "gpu=yes", bad: true},
		{text: "gpu=yes:Never", bad: true},
		{text: "=yes:NoExecute", bad: true},
		{text: "gpu=a b:NoExecute", bad: true},
	} {
		got, err := ParseTaints(tc.text)
		if (err != nil) != tc.bad || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %v, %v", tc.text, got, err)
		}
	}
}
