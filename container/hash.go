package container

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	hashutil "k8s.io/kubernetes/pkg/util/hash"
)

// Hash returns a hash, in hexadecimal, of the fields whose change requires a new container:
// name and image (the kubelet's HashContainer since v1.31).
func Hash(c *corev1.Container) string {
	h := fnv.New32a()
	hashutil.DeepHashObject(h, []byte(asJSON(map[string]string{"name": c.Name, "image": c.Image})))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// asJSON marshals a value of an API type, which cannot fail.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
